"""Muon: momentum whose matrices are made orthogonal before the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from .base import CheckedOptimizer

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the odd quintic that brings singular values between 0 and 1 close to 1 in five rounds."""
ROUNDS = 5
RMS = 0.2
"""Size of a step for a rate of 1: about that of AdamW, so that both go with the same rates."""


class Muon(CheckedOptimizer):
    """Orthogonalised momentum for the matrices inside the network, AdamW for all else.

    K. Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; steps have the size of
    AdamW's as in J. Liu et al. 2025, "Muon is scalable for LLM training": ``0.2 * sqrt(longer side)`` times
    an orthogonal matrix. Decay is decoupled. Matrices of one shape are worked on together.

    Args:
        params: groups; the key ``matrices`` says what a group holds: ``none`` (AdamW), ``flat`` (parameters
            of 2 or more axes, all but the first are one) or ``stack`` (the last two axes are the matrix,
            those before count matrices). Without the key it is ``none``.
        lr: base rate.
        momentum: of the matrices (Nesterov).
        betas, eps: of AdamW.
        weight_decay: decoupled decay.
        dtype: numbers in which matrices are made orthogonal.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings)
        self._dtype = dtype

    def update(self) -> None:
        """See :meth:`CheckedOptimizer.update`."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in parameters:
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    if _kind(group) == "none":
                        state["exp_avg_sq"] = torch.zeros_like(parameter)
            if not parameters:
                continue
            if _kind(group) == "none":
                self._adamw(group, parameters)
            else:
                self._orthogonal(group, parameters)

    def _adamw(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        states = [self.state[parameter] for parameter in parameters]
        beta1, beta2 = group["betas"]
        adamw(
            parameters,
            [parameter.grad for parameter in parameters if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )

    def _orthogonal(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        averages = [state["exp_avg"] for state in states]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        torch._foreach_lerp_(averages, gradients, 1.0 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, averages, group["momentum"])
        if group["weight_decay"] > 0:
            torch._foreach_mul_(parameters, 1.0 - float(group["lr"]) * group["weight_decay"])
        alike: dict[tuple[Any, ...], list[int]] = {}
        views = [as_matrices(value, _kind(group)) for value in ahead]
        for index, view in enumerate(views):
            alike.setdefault((view.shape[1:], view.device), []).append(index)
        for indices in alike.values():
            rows, columns = views[indices[0]].shape[1:]
            size = float(group["lr"]) * RMS * max(rows, columns) ** 0.5
            found = orthogonal(torch.cat([views[index].to(self._dtype) for index in indices]))
            steps = torch.split(found, [len(views[index]) for index in indices])
            torch._foreach_add_(
                [parameters[index] for index in indices],
                [
                    step.reshape(parameters[index].shape).to(parameters[index].dtype)
                    for step, index in zip(steps, indices, strict=True)
                ],
                alpha=-size,
            )


def _kind(group: dict[str, Any]) -> str:
    return str(group.get("matrices", "none"))


def as_matrices(value: Tensor, kind: str) -> Tensor:
    """(M, rows, columns) of a parameter, see :class:`Muon`."""
    if kind == "flat":
        return value.flatten(1)[None]
    assert kind == "stack", kind
    return value.flatten(0, -3) if value.ndim > 3 else value if value.ndim == 3 else value[None]


def orthogonal(matrices: Tensor) -> Tensor:
    """(M, rows, columns) → the same with all singular values brought near 1 (Newton-Schulz).

    Values end between about 0.7 and 1.2, not at 1: the coefficients trade that for speed. A matrix of zeros
    stays one.
    """
    linear, cubic, quintic = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    found = matrices.mT if tall else matrices
    found = found / found.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ROUNDS):
        gram = found @ found.mT
        factor = torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic)
        found = torch.baddbmm(found, factor, found, beta=linear)
    return found.mT if tall else found
