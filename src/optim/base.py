"""What the optimizers of this room have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch.optim import Optimizer

MIN_SCALE = 1e-3
"""Smallest factor that a tensor's own size gives to a relative step, also that of tensors that are all zero
(epsilon 2 of the Adafactor paper)."""


class CheckedOptimizer(Optimizer):
    """An optimizer that refuses settings out of range and knows closures; a subclass writes :meth:`update`.

    Args:
        params: parameters or groups.
        settings: of every group that has none of its own.

    Raises:
        ValueError: a setting is negative, or one of ``betas`` is not below 1.
    """

    def __init__(self, params: Iterable[Any], settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            fits = all(0 <= beta < 1 for beta in value) if name == "betas" else value >= 0
            if not fits:
                raise ValueError(f"{type(self).__name__}: {name} {value} is out of range")
        super().__init__(params, settings)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.update()
        return loss

    @abstractmethod
    def update(self) -> None:
        """Change every parameter that has a gradient; called without recording gradients."""
