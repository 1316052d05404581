"""Activation functions by the names of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ...config import unknown_name

Activation = Callable[[Tensor], Tensor]

_TABLE: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda x: x * (1.702 * x).sigmoid(),
    "silu": F.silu,
    "swish": F.silu,
    "mish": F.mish,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def get_activation(name: str) -> Activation:
    """The function called ``name`` in transformers: ``gelu`` is the exact form, ``gelu_new`` the tanh form.

    Raises:
        ValueError: no activation has that name.
    """
    if name not in _TABLE:
        raise unknown_name("activation", name, _TABLE)
    return _TABLE[name]
