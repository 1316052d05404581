"""Adafactor: second moments kept as row and column means, steps relative to the size of each tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .base import MIN_SCALE, CheckedOptimizer

SMALLEST_SQUARE = 1e-30
"""Added to squared gradients (epsilon 1)."""
CLIP = 1.0
"""Largest root mean square of an update before the rate."""
DECAY_POWER = 0.8
"""The second moment of step t forgets with 1 - t^-0.8."""


class Adafactor(CheckedOptimizer):
    """Adafactor without first moment (Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with
    Sublinear Memory Cost").

    Steps are always multiplied by max(1e-3, RMS of the tensor). With ``relative_step`` the rate is
    min(1e-6 t, 1 / sqrt(t)) at step t, and ``lr`` only a factor on it; else it is ``lr``. The host never
    waits for the device.

    Args:
        params: parameters or groups.
        lr: rate, or the factor on the relative one.
        relative_step: choose the rate by the number of steps.
        weight_decay: decoupled decay, by the scaled rate.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        relative_step: bool = True,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "relative_step": relative_step, "weight_decay": weight_decay})

    def update(self) -> None:
        """See :meth:`CheckedOptimizer.update`."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(group, parameter, parameter.grad)

    def _update(self, group: dict[str, Any], parameter: Tensor, gradient: Tensor) -> None:
        state = self.state[parameter]
        step = state["step"] = state.get("step", 0) + 1
        rate = float(group["lr"])
        if group["relative_step"]:
            rate *= min(1e-6 * step, 1.0 / math.sqrt(step))
        keep = 1.0 - step**-DECAY_POWER
        squares = gradient.square().add_(SMALLEST_SQUARE)
        if parameter.ndim >= 2:
            rows = _average(state, "rows", squares.mean(-1), keep)
            columns = _average(state, "columns", squares.mean(-2), keep)
            update = (rows / rows.mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            update = update * columns.rsqrt().unsqueeze(-2) * gradient
        else:
            update = _average(state, "squares", squares, keep).rsqrt() * gradient
        update.div_((_rms(update) / CLIP).clamp_min_(1.0))
        scale = _rms(parameter).clamp_min_(MIN_SCALE).mul_(rate)
        if group["weight_decay"] > 0:
            parameter.mul_(1.0 - group["weight_decay"] * scale)
        parameter.sub_(update.mul_(scale))


def _average(state: dict[str, Any], name: str, value: Tensor, keep: float) -> Tensor:
    if name not in state:
        state[name] = torch.zeros_like(value)
    average: Tensor = state[name]
    return average.lerp_(value, 1.0 - keep)


def _rms(tensor: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(tensor)
    return norm.div_(math.sqrt(tensor.numel()))
