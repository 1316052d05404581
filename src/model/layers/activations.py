"""Activation functions by the names of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from ...config import unknown_name

Activation = Callable[[Tensor], Tensor]

_TABLE: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
}


def get_activation(name: str) -> Activation:
    """The function called ``name``: ``gelu`` is the exact form, ``gelu_new`` the tanh form.

    Raises:
        ValueError: no activation has that name.
    """
    if name not in _TABLE:
        raise unknown_name("activation", name, _TABLE)
    return _TABLE[name]
