"""Optimizers by name, and which parameters are decayed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.nn import Parameter
from torch.optim import AdamW, Optimizer

from ..config.names import unknown_name
from .adafactor import Adafactor
from .adamw_scale import AdamWScale
from .dadapt_adam import DAdaptAdam
from .layer_decay import layer_scales
from .muon import Muon

NOT_DECAYED = (
    "norm",
    "bias",
    "pos_emb",
    "position",
    "additive_pe",
    "relative_attention",
    "latents",
    "slopes",
)
"""Parts of names whose parameters are never decayed, besides everything with fewer than two dimensions."""

NOT_HIDDEN = ("embed", "head", "conv1.weight")
"""Parts of names of matrices that are no inner ones: tokens in and out, the frame head, and the first
convolution, which sees the spectrogram."""


def is_decayed(name: str, parameter: Parameter) -> bool:
    """Whether weight decay applies: matrices, but no norms, biases, position tables or latents."""
    lowered = name.lower()
    return parameter.ndim >= 2 and not any(part in lowered for part in NOT_DECAYED)


def matrix_kind(name: str, parameter: Parameter) -> str:
    """What :class:`.Muon` makes of a parameter: ``flat`` for matrices and kernels, ``stack`` for those of
    experts and groups, ``none`` for all that is no inner matrix (one row or one column is none either)."""
    hidden = is_decayed(name, parameter) and not any(part in name.lower() for part in NOT_HIDDEN)
    if not hidden or 1 in parameter.shape[:2]:
        return "none"
    return "stack" if parameter.ndim == 3 and "conv" not in name.lower() else "flat"


def build_optimizer(
    name: str,
    named_parameters: Iterable[tuple[str, Parameter]],
    learning_rate: float | None = None,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    lr_decay: float = 1.0,
    gradient_scaler: bool = False,
    bfloat16: bool = False,
) -> Optimizer:
    """The optimizer of that name over at most two groups, decayed and not decayed (Muon has further ones for
    matrices); with ``lr_decay`` below 1 as many for each layer, whose ``lr_scale`` the schedules multiply the
    rate with.

    Args:
        name: key of ``OPTIMIZER_TABLE``.
        named_parameters: names and parameters; those that need no gradient are left out.
        learning_rate: base rate; None takes the optimizer's own.
        weight_decay: decay of the decayed group.
        betas: decay of the moments.
        lr_decay: factor on the rate for each layer further from the output (:func:`.layer_scales`).
        gradient_scaler: fp16 training with a gradient scaler, which fused kernels do not go with.
        bfloat16: training in bfloat16; matrices are then made orthogonal in it.

    Raises:
        ValueError: for an unknown name, when nothing is trained, or when ``CPUAdam`` lacks deepspeed.
    """
    if name not in OPTIMIZER_TABLE:
        raise unknown_name("optimizer", name, OPTIMIZER_TABLE)
    named = list(named_parameters)
    scales = layer_scales([name for name, _ in named], lr_decay)
    kind = OPTIMIZER_TABLE[name]
    members: dict[tuple[float, bool, str], list[Parameter]] = {}
    for parameter_name, parameter in named:
        if parameter.requires_grad:
            decays = is_decayed(parameter_name, parameter)
            matrices = matrix_kind(parameter_name, parameter) if kind.by_matrix else "none"
            members.setdefault((scales[parameter_name], decays, matrices), []).append(parameter)
    if not members:
        raise ValueError("no parameter is left to train; loosen --freeze")
    groups: list[dict[str, Any]] = [
        {
            "params": members[scale, decays, matrices],
            "weight_decay": weight_decay if decays else 0.0,
            "lr_scale": scale,
        }
        | ({"matrices": matrices} if kind.by_matrix else {})
        for scale, decays, matrices in sorted(members, reverse=True)
    ]
    choice = Choice(
        kind.rate if learning_rate is None else learning_rate,
        betas,
        gradient_scaler,
        paces_itself(name, learning_rate),
        bfloat16,
    )
    return kind.build(groups, choice)


def paces_itself(name: str, learning_rate: float | None) -> bool:
    """Whether the optimizer chooses its own rate, so that no schedule applies: the self-tuning ones when no
    rate is given, as published."""
    return learning_rate is None and OPTIMIZER_TABLE[name].self_tuning


class Choice(NamedTuple):
    """What an optimizer is built with, besides its groups."""

    rate: float
    betas: tuple[float, float]
    gradient_scaler: bool
    own_pace: bool
    """Whether it chooses its own rate."""
    bfloat16: bool


class OptimizerKind(NamedTuple):
    """A row of the table."""

    rate: float
    """Its own base rate."""
    build: Callable[[list[dict[str, Any]], Choice], Optimizer]
    self_tuning: bool = False
    """Without a given rate it finds one itself."""
    by_matrix: bool = False
    """Treats the matrices inside the network unlike all else: groups say which they are."""


def _devices(groups: list[dict[str, Any]]) -> set[str]:
    return {parameter.device.type for group in groups for parameter in group["params"]}


def _adamw(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    fused = not choice.gradient_scaler and _devices(groups) <= {"cpu", "cuda"}
    return AdamW(groups, lr=choice.rate, betas=choice.betas, fused=fused, foreach=not fused)


def _adamw_scale(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    return AdamWScale(groups, lr=choice.rate, betas=choice.betas)


def _adafactor(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    return Adafactor(groups, lr=choice.rate, relative_step=choice.own_pace)


def _dadapt_adam(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    return DAdaptAdam(groups, lr=choice.rate, betas=choice.betas)


def _muon(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    dtype = torch.bfloat16 if choice.bfloat16 else torch.float32
    return Muon(groups, lr=choice.rate, betas=choice.betas, dtype=dtype)


def _cpu_adam(groups: list[dict[str, Any]], choice: Choice) -> Optimizer:
    try:
        package = importlib.import_module("deepspeed.ops.adam")
    except ImportError as error:
        raise ValueError(
            f"-o CPUAdam needs deepspeed (pip install 'amt[deepspeed]'), which cannot be imported ({error}); "
            "-o AdamW needs nothing"
        ) from error
    if _devices(groups) != {"cpu"}:
        raise ValueError("-o CPUAdam updates weights on the CPU, and these are on a GPU: use -o AdamW")
    built: Optimizer = package.DeepSpeedCPUAdam(groups, lr=choice.rate, betas=choice.betas, adamw_mode=True)
    return built


OPTIMIZER_TABLE: dict[str, OptimizerKind] = {
    "AdamW": OptimizerKind(1e-3, _adamw),
    "AdamWScale": OptimizerKind(1e-2, _adamw_scale),
    "Adafactor": OptimizerKind(1.0, _adafactor, self_tuning=True),
    "DAdaptAdam": OptimizerKind(1.0, _dadapt_adam, self_tuning=True),
    "CPUAdam": OptimizerKind(1e-3, _cpu_adam),
    "Muon": OptimizerKind(1e-3, _muon, by_matrix=True),
}
"""Name to own base rate and constructor."""
