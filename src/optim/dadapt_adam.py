"""Adam that finds its own learning rate (D-Adaptation)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .base import CheckedOptimizer


class DAdaptAdam(CheckedOptimizer):
    """Adam with D-Adaptation (Defazio and Mishchenko 2023, "Learning-Rate-Free Learning by D-Adaptation",
    algorithm 5), decay decoupled.

    It estimates from below the distance ``d`` to the solution, which takes the place of the learning rate;
    ``lr`` is a factor on it, usually 1. All tensors are updated together (foreach), and the host reads two
    numbers of the device once a step.

    Args:
        params: parameters or groups; all share one ``d``.
        lr: factor on the rate that is found.
        betas: decay of the moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled decay.
        d0: first estimate; too small costs some steps, too large is never taken back.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        d0: float = 1e-6,
    ) -> None:
        if d0 <= 0:
            raise ValueError(f"DAdaptAdam: d0 {d0} must be positive")
        super().__init__(
            params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "d": d0, "numerator": 0.0},
        )

    @property
    def distance(self) -> float:
        """The estimate ``d`` so far."""
        return float(self.param_groups[0]["d"])

    def update(self) -> None:
        """See :meth:`CheckedOptimizer.update`."""
        ready = [
            (group, parameters)
            for group in self.param_groups
            if (parameters := [item for item in group["params"] if item.grad is not None])
        ]
        if not ready:
            return
        d, numerator = self.distance, float(self.param_groups[0]["numerator"])
        root = math.sqrt(self.param_groups[0]["betas"][1])
        grown: list[Tensor] = []
        lengths: list[Tensor] = []
        for group, parameters in ready:
            product, length = self._update(group, parameters, d * float(group["lr"]))
            grown.append(product)
            lengths.append(length)
        total, length_1 = torch.stack([torch.stack(grown).sum(), torch.stack(lengths).sum()]).tolist()
        numerator = root * numerator + (1.0 - root) * total
        if length_1 > 0:
            d = max(d, numerator / ((1.0 - root) * length_1))
        for group in self.param_groups:
            group["d"], group["numerator"] = d, numerator

    def _update(self, group: dict[str, Any], parameters: list[Tensor], rate: float) -> tuple[Tensor, Tensor]:
        """One group's step; returns rate x <gradient, s> in the metric of the step, and the 1-norm of s."""
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                for name in ("exp_avg", "exp_avg_sq", "s"):
                    state[name] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        root = math.sqrt(beta2)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        first, second, sums = (
            [self.state[parameter][name] for parameter in parameters]
            for name in ("exp_avg", "exp_avg_sq", "s")
        )
        torch._foreach_mul_(first, beta1)
        torch._foreach_add_(first, gradients, alpha=rate * (1.0 - beta1))
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, value=1.0 - beta2)
        roots = torch._foreach_sqrt(second)
        torch._foreach_add_(roots, group["eps"])
        products = torch._foreach_div(sums, roots)
        torch._foreach_mul_(products, gradients)
        product = torch.stack([item.sum().double() for item in products]).sum() * rate
        torch._foreach_mul_(sums, root)
        torch._foreach_add_(sums, gradients, alpha=rate * (1.0 - root))
        length = torch.stack([item.double() for item in torch._foreach_norm(sums, 1)]).sum()
        if group["weight_decay"] > 0:
            torch._foreach_mul_(parameters, 1.0 - rate * group["weight_decay"])
        torch._foreach_addcdiv_(parameters, first, roots, value=-1.0)
        return product, length
