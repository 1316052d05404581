"""Learning-rate schedules: pure functions of the step, and the object that applies them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..config.names import unknown_name

FLOOR_SHARE = 0.1
"""Share of the base rate that replaces an end rate above the base rate."""

Curve = Callable[[float, float, float], float]
"""(base rate, end rate, share of the way in 0..1) to rate."""


def _cosine(base: float, end: float, share: float) -> float:
    return end + (base - end) * 0.5 * (1.0 + math.cos(math.pi * share))


def _linear(base: float, end: float, share: float) -> float:
    return base + (end - base) * share


def _constant(base: float, end: float, share: float) -> float:
    return base


SCHEDULE_TABLE: dict[str, tuple[Curve, bool]] = {
    "cosine": (_cosine, True),
    "linear": (_linear, True),
    "constant": (_constant, False),
}
"""Name to curve, and whether it falls and so needs to know where the run ends."""


class StepSchedule(LRScheduler):
    """Sets every group's rate from the number of steps taken; stepped once per optimizer step.

    The state is one number. Two outer influences are set by the trainer, which saves them itself:
    :attr:`factor` and :attr:`time_share`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        curve: Curve,
        base: float,
        end: float,
        warmup_steps: int,
        warmup_start: float,
        total_steps: int | None,
        notice: str = "",
    ) -> None:
        # LRScheduler is the type Lightning and other tools look for; its chained arithmetic is not used.
        self.optimizer = optimizer
        self.base = base
        self.end = end
        self.warmup_steps = warmup_steps
        self.warmup_start = warmup_start
        self.total_steps = total_steps
        self.notice = notice
        """What the user should know about the chosen rates, or empty."""
        self.factor = 1.0
        """Multiplies the rate (``nan_lr_scale``)."""
        self.time_share = 0.0
        """Share of the time budget used; the schedule follows the larger of it and the share of steps."""
        self.last_epoch = 0
        self._curve = curve
        self._apply()

    def rate(self, step: int) -> float:
        """Rate of the update that follows ``step`` taken steps, without :attr:`factor`."""
        if step < self.warmup_steps:
            return self.base * (self.warmup_start + (1.0 - self.warmup_start) * step / self.warmup_steps)
        share = 0.0
        if self.total_steps is not None:
            remaining = self.total_steps - self.warmup_steps
            share = (step - self.warmup_steps) / remaining if remaining > 0 else 1.0
        return self._curve(self.base, self.end, min(max(share, self.time_share), 1.0))

    def step(self, epoch: int | None = None) -> None:
        """Count one step (or take the given number) and apply its rate."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply()

    def get_lr(self) -> list[float | Any]:
        """The rate of each group now."""
        return [self.rate(self.last_epoch) * self.factor for _ in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float | Any]:
        """The rate last applied, per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Plain state: the number of steps."""
        return {"num_steps": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the saved number of steps."""
        self.last_epoch = int(state_dict["num_steps"])
        self._apply()

    def _apply(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate


def build_scheduler(
    name: str,
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    final: float = 1e-5,
    total_steps: int | None = None,
    time_budget: bool = False,
) -> StepSchedule:
    """The schedule of that name; the base rate is the optimizer's.

    ``cosine`` warms up from half the base rate, then falls to ``final``, where it stays; ``linear`` falls
    in a straight line without warm-up; ``constant`` is flat after its warm-up.

    Args:
        name: key of ``SCHEDULE_TABLE``.
        optimizer: all its groups get the same rate.
        warmup_steps: steps of linear warm-up.
        final: absolute rate at the end; above the base rate it is replaced by 0.1 x base, with a notice.
        total_steps: steps of the run, None when not limited.
        time_budget: the run has a budget of time, so a falling schedule needs no number of steps.

    Raises:
        ValueError: for an unknown name, or a falling schedule on a run without an end.
    """
    if name not in SCHEDULE_TABLE:
        raise unknown_name("scheduler", name, SCHEDULE_TABLE)
    curve, falls = SCHEDULE_TABLE[name]
    if falls and total_steps is None and not time_budget:
        raise ValueError(
            f"-s {name} needs to know where the run ends: give -it STEPS (or -e EPOCHS), or use -s constant"
        )
    base = float(optimizer.param_groups[0]["lr"])
    notice = ""
    if falls and final > base:
        notice = (
            f"the end rate {final:g} of -s {name} is above the base rate {base:g}; "
            f"{FLOOR_SHARE * base:g} (0.1 x base) is used instead"
        )
        final = FLOOR_SHARE * base
    return StepSchedule(
        optimizer,
        curve=curve,
        base=base,
        end=final,
        warmup_steps=0 if name == "linear" else warmup_steps,
        warmup_start=0.5,
        total_steps=total_steps,
        notice=notice,
    )
