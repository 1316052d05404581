"""Training and evaluation mode of parts of a network, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import nn


def modes(module: nn.Module) -> dict[nn.Module, bool]:
    """Which parts of ``module`` are in training mode."""
    return {part: part.training for part in module.modules()}


@contextmanager
def in_modes(wanted: Mapping[nn.Module, bool]) -> Iterator[None]:
    """Each part in the mode given; as before afterwards."""
    before = {part: part.training for part in wanted}
    try:
        for part, training in wanted.items():
            part.training = training
        yield
    finally:
        for part, training in before.items():
            part.training = training


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """``module`` in evaluation mode; each part as before afterwards."""
    with in_modes(dict.fromkeys(module.modules(), False)):
        yield
