"""The base learning rate for the batch that the machines of a run make together (``--scale-lr``), and what is
said when a resumed run goes on at another rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..config import Experiment
from ..config.names import counted
from ..config.training import REFERENCE_BATCH, LRSchedule, OptimizerConfig
from ..optim import OPTIMIZER_TABLE, SCHEDULE_TABLE, paces_itself
from .plan import RunPlan, plan_run

NOTICEABLE = 0.05
"""Share by which the rate of a resumed run may differ from that of its checkpoint without a word."""


def scaled_learning_rate(
    config: OptimizerConfig, schedule: LRSchedule, samples_per_step: int
) -> tuple[float | None, str]:
    """The base rate to build the optimizer with.

    ``linear`` multiplies it by the global batch over the reference (Goyal et al. 2017, "Accurate, Large
    Minibatch SGD"), ``sqrt`` by the root of that, which suits Adam (Malladi et al. 2022, "On the SDEs and
    Scaling Rules for Adaptive Gradient Algorithms"). The end rate of a schedule is absolute and stays.

    Args:
        config: rate and scaling that were asked for.
        schedule: of the run.
        samples_per_step: segments of the global batch.

    Returns:
        The rate, None for the optimizer's own; and what to say, or "".

    Raises:
        ValueError: when there is no base rate that could be scaled.
    """
    if config.scale_lr == "none":
        return config.learning_rate, ""
    if paces_itself(config.name, config.learning_rate):
        raise ValueError(
            f"--scale-lr {config.scale_lr} has nothing to multiply: -o {config.name} finds its own rate; "
            "give -lr, or leave --scale-lr out"
        )
    if SCHEDULE_TABLE[schedule.name].base is not None:
        raise ValueError(
            f"--scale-lr {config.scale_lr} has nothing to multiply: -s {schedule.name} has a base rate of "
            "its own; take another schedule, or leave --scale-lr out"
        )
    given = config.learning_rate
    base = OPTIMIZER_TABLE[config.name].rate if given is None else given
    share = samples_per_step / REFERENCE_BATCH
    rate = base * (share if config.scale_lr == "linear" else math.sqrt(share))
    return rate, (
        f"learning rate: {rate:g} = {base:g} scaled by --scale-lr {config.scale_lr} for a global batch of "
        f"{samples_per_step} segments, {share:g} of the reference of {REFERENCE_BATCH}"
    )


def saved_rate(checkpoint: Mapping[str, Any]) -> float:
    """The rate that the next step of the run that wrote the checkpoint would have had."""
    group = checkpoint["optimizer_states"][0]["param_groups"][0]
    return float(group["lr"]) / float(group.get("lr_scale", 1.0))


def explain_new_rate(
    checkpoint: Mapping[str, Any], experiment: Experiment, plan: RunPlan, before: float, now: float
) -> str:
    """Why the rate of a resumed run is noticeably another than when it was saved.

    Args:
        checkpoint: the one that is resumed, in the current format.
        experiment: of the new start.
        plan: of the new start.
        before: :func:`saved_rate` of the checkpoint.
        now: the rate of the next step.

    Returns:
        What to say, or "".
    """
    if abs(now - before) <= NOTICEABLE * before:
        return ""
    stored = Experiment.from_json(checkpoint["experiment"])
    old = plan_run(stored, plan.world_size)
    if (end_step := checkpoint["amt_state"]["end_step"]) is not None:
        old = replace(old, max_steps=end_step)
    flags = [("-e" if plan.epochs else "-it")] if old.max_steps != plan.max_steps else []
    flags += ["--max-minutes"] if old.budget_seconds != plan.budget_seconds else []
    reasons = []
    if _rate_settings(stored) != _rate_settings(experiment):
        reasons.append("optimizer and schedule are those of --override-optim")
    if flags:
        reasons.append(
            f"the schedule now lasts {plan.end or 'without end'}, not {old.end or 'without end'} "
            f"({' and '.join(flags)}); --override-optim -s constant -lr RATE would hold a rate"
        )
    if not reasons and experiment.optimizer.scale_lr != "none":
        batch = counted(plan.samples_per_step, "segment")
        reasons.append(f"--scale-lr {experiment.optimizer.scale_lr} goes by the global batch, now {batch}")
    if not reasons:
        return ""
    return (
        f"learning rate: it goes on at {now:.3g}, it was {before:.3g} when the run was saved: "
        + ", and ".join(reasons)
    )


def _rate_settings(experiment: Experiment) -> tuple[object, ...]:
    optimizer = experiment.optimizer
    return optimizer.name, optimizer.learning_rate, optimizer.scale_lr, experiment.lr_schedule
