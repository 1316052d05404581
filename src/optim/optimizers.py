"""Optimizers by name, and which parameters are decayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.nn import Parameter
from torch.optim import AdamW, Optimizer

from ..config.names import unknown_name
from .adamw_scale import AdamWScale

NOT_DECAYED = ("norm", "bias", "pos_emb", "position", "additive_pe", "relative_attention", "latents")
"""Parts of names whose parameters are never decayed, besides everything with fewer than two dimensions."""


def is_decayed(name: str, parameter: Parameter) -> bool:
    """Whether weight decay applies: matrices, but no norms, biases, position tables or latents."""
    lowered = name.lower()
    return parameter.ndim >= 2 and not any(part in lowered for part in NOT_DECAYED)


def build_optimizer(
    name: str,
    named_parameters: Iterable[tuple[str, Parameter]],
    learning_rate: float | None = None,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    gradient_scaler: bool = False,
) -> Optimizer:
    """The optimizer of that name over at most two groups, decayed and not decayed.

    Args:
        name: key of ``OPTIMIZER_TABLE``.
        named_parameters: names and parameters; those that need no gradient are left out.
        learning_rate: base rate; None takes the optimizer's own.
        weight_decay: decay of the decayed group.
        betas: decay of the moments.
        gradient_scaler: fp16 training with a gradient scaler, which fused kernels do not go with.

    Raises:
        ValueError: for an unknown name, or when nothing is trained.
    """
    if name not in OPTIMIZER_TABLE:
        raise unknown_name("optimizer", name, OPTIMIZER_TABLE)
    decayed: list[Parameter] = []
    kept: list[Parameter] = []
    for parameter_name, parameter in named_parameters:
        if parameter.requires_grad:
            (decayed if is_decayed(parameter_name, parameter) else kept).append(parameter)
    if not decayed and not kept:
        raise ValueError("no parameter is left to train; loosen --freeze")
    groups: list[dict[str, Any]] = []
    for members, decay in ((decayed, weight_decay), (kept, 0.0)):
        if members:
            groups.append({"params": members, "weight_decay": decay})
    default_rate, build = OPTIMIZER_TABLE[name]
    rate = default_rate if learning_rate is None else learning_rate
    return build(groups, rate, betas, gradient_scaler)


def _adamw(
    groups: list[dict[str, Any]], rate: float, betas: tuple[float, float], gradient_scaler: bool
) -> Optimizer:
    devices = {parameter.device.type for group in groups for parameter in group["params"]}
    if not gradient_scaler and devices <= {"cpu", "cuda"}:
        return AdamW(groups, lr=rate, betas=betas, fused=True)
    return AdamW(groups, lr=rate, betas=betas, foreach=True)


def _adamw_scale(
    groups: list[dict[str, Any]], rate: float, betas: tuple[float, float], gradient_scaler: bool
) -> Optimizer:
    return AdamWScale(groups, lr=rate, betas=betas)


Builder = Callable[[list[dict[str, Any]], float, tuple[float, float], bool], Optimizer]

OPTIMIZER_TABLE: dict[str, tuple[float, Builder]] = {
    "AdamW": (1e-3, _adamw),
    "AdamWScale": (1e-2, _adamw_scale),
}
"""Name to own base rate and constructor."""
