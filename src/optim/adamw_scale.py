"""AdamW whose step is scaled by the size of each tensor, as nanoT5 and YourMT3 use it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .base import MIN_SCALE, CheckedOptimizer


class AdamWScale(CheckedOptimizer):
    """AdamW with each tensor's step multiplied by max(1e-3, RMS of the tensor).

    Adafactor's relative step (Shazeer and Stern 2018) in AdamW. ``eps`` is added to the uncorrected
    root of the second moment; decay comes after the step and uses the plain rate, as published. All
    tensors are updated together (foreach) and the host never waits for the device.

    Args:
        params: parameters or groups.
        lr: base rate.
        betas: decay of the moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled decay.
        correct_bias: correct the moments' start from zero.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
    ) -> None:
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "correct_bias": correct_bias,
        }
        super().__init__(params, settings)

    def update(self) -> None:
        """See :meth:`CheckedOptimizer.update`."""
        for group in self.param_groups:
            ready: dict[tuple[int, torch.device, torch.dtype], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                state["step"] += 1
                ready.setdefault((state["step"], parameter.device, parameter.dtype), []).append(parameter)
            for (step, _, _), parameters in ready.items():
                self._update(group, step, parameters)

    def _update(self, group: dict[str, Any], step: int, parameters: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        first = [self.state[parameter]["exp_avg"] for parameter in parameters]
        second = [self.state[parameter]["exp_avg_sq"] for parameter in parameters]
        torch._foreach_lerp_(first, gradients, 1.0 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, value=1.0 - beta2)
        rate = float(group["lr"])
        if group["correct_bias"]:
            rate *= math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step)
        scales = torch._foreach_norm(parameters)
        torch._foreach_div_(scales, [math.sqrt(parameter.numel()) for parameter in parameters])
        torch._foreach_clamp_min_(scales, MIN_SCALE)
        torch._foreach_mul_(scales, -rate)
        updates = torch._foreach_sqrt(second)
        torch._foreach_add_(updates, group["eps"])
        updates = torch._foreach_div(first, updates)
        torch._foreach_mul_(updates, scales)
        torch._foreach_add_(parameters, updates)
        if group["weight_decay"] > 0:
            torch._foreach_mul_(parameters, 1.0 - float(group["lr"]) * group["weight_decay"])
