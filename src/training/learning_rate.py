"""The base learning rate for the batch that the machines of a run make together (``--scale-lr``)."""

from __future__ import annotations

import math

from ..config.training import REFERENCE_BATCH, LRSchedule, OptimizerConfig
from ..optim import OPTIMIZER_TABLE, SCHEDULE_TABLE, paces_itself


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
