"""Learning-rate schedules: pure functions of the step, and the object that applies them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..config.names import counted, unknown_name

FLOOR_SHARE = 0.1
"""Share of the base rate that replaces an end rate above the base rate."""

LEGACY_BASE = 1e-2
LEGACY_TAIL = 0.1
"""Share of a ``legacy`` run in which the rate falls to 0."""
PLATEAU_FACTOR = 0.5
PLATEAU_PATIENCE = 5
"""Validations without a better score that ``plateau`` lets pass; the next one halves the rate."""
PLATEAU_THRESHOLD = 1e-4
"""Relative gain below which a score is no better."""


class Place(NamedTuple):
    """Where in a run a rate is asked for."""

    step: int
    """Updates taken."""
    share: float
    """Share of the way from the end of warm-up to the end of the run, 0 to 1."""
    total_steps: int | None


Curve = Callable[[float, float, Place], float]
"""(base rate, end rate, place) to rate."""


def _cosine(base: float, end: float, place: Place) -> float:
    return end + (base - end) * 0.5 * (1.0 + math.cos(math.pi * place.share))


def _linear(base: float, end: float, place: Place) -> float:
    return base + (end - base) * place.share


def _constant(base: float, end: float, place: Place) -> float:
    return base


def _legacy(base: float, end: float, place: Place) -> float:
    """T5's inverse square root, then a straight line to 0 over the last tenth of a run that has an end."""
    turn = place.step if place.total_steps is None else math.ceil((1.0 - LEGACY_TAIL) * place.total_steps)
    rate = min(base, 1.0 / math.sqrt(max(1, min(place.step, turn))))
    start = 1.0 - LEGACY_TAIL if place.total_steps is None else turn / place.total_steps
    return rate * min(1.0, (1.0 - place.share) / (1.0 - start)) if start < 1 else rate


class ScheduleKind(NamedTuple):
    """A row of the table."""

    curve: Curve
    needs_end: bool = False
    """It falls to the end rate and must know where the run ends."""
    warms_up: bool = True
    base: float | None = None
    """A base rate of its own, whatever the optimizer's."""


SCHEDULE_TABLE: dict[str, ScheduleKind] = {
    "cosine": ScheduleKind(_cosine, needs_end=True),
    "constant": ScheduleKind(_constant),
    "linear": ScheduleKind(_linear, needs_end=True, warms_up=False),
    "plateau": ScheduleKind(_constant),
    "legacy": ScheduleKind(_legacy, warms_up=False, base=LEGACY_BASE),
}
"""Name to curve, and what it needs."""


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
        place = Place(step, min(max(share, self.time_share), 1.0), self.total_steps)
        return self._curve(self.base, self.end, place)

    def observe(self, score: float | None) -> str:
        """Take the score of a finished validation; returns what to say when the rate changes by it, or ""."""
        del score
        return ""

    def step(self, epoch: int | None = None) -> None:
        """Count one step (or take the given number) and apply its rate."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply()

    @property
    def current_rate(self) -> float:
        """The rate now, :attr:`factor` included; groups of lower layers may have a share of it."""
        return self.rate(self.last_epoch) * self.factor

    def get_lr(self) -> list[float | Any]:
        """The rate of each group now: the current one times the group's ``lr_scale``."""
        rate = self.current_rate
        return [rate * group.get("lr_scale", 1.0) for group in self.optimizer.param_groups]

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


class PlateauSchedule(StepSchedule):
    """Halves the rate when validation has not become better for some time, larger scores being better.

    The rules are those of ``torch.optim.lr_scheduler.ReduceLROnPlateau``. A score that is missing or not
    finite does not count.
    """

    def __init__(self, optimizer: Optimizer, **options: Any) -> None:
        self.scale = 1.0
        """Factor on the rate so far."""
        self.best = -math.inf
        self.num_bad = 0
        super().__init__(optimizer, **options)

    def rate(self, step: int) -> float:
        """See :meth:`StepSchedule.rate`."""
        return super().rate(step) * self.scale

    def observe(self, score: float | None) -> str:
        """See :meth:`StepSchedule.observe`."""
        if score is None or not math.isfinite(score):
            return ""
        if score > self.best * (1.0 + PLATEAU_THRESHOLD):
            self.best, self.num_bad = score, 0
            return ""
        self.num_bad += 1
        if self.num_bad <= PLATEAU_PATIENCE:
            return ""
        self.num_bad = 0
        self.scale *= PLATEAU_FACTOR
        self._apply()
        return (
            f"-s plateau: {PLATEAU_PATIENCE + 1} validations without a better score than {self.best:.4f}; "
            f"the rate is {self.rate(self.last_epoch):g} from now on"
        )

    def state_dict(self) -> dict[str, Any]:
        """Plain state: the number of steps and the place on the plateau."""
        best = self.best if math.isfinite(self.best) else None
        return {**super().state_dict(), "scale": self.scale, "best": best, "num_bad": self.num_bad}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the saved state."""
        best = state_dict.get("best")
        self.scale = float(state_dict.get("scale", 1.0))
        self.best = -math.inf if best is None else float(best)
        self.num_bad = int(state_dict.get("num_bad", 0))
        super().load_state_dict(state_dict)


def build_scheduler(
    name: str,
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    final: float = 1e-5,
    total_steps: int | None = None,
    time_budget: bool = False,
    self_paced: bool = False,
) -> StepSchedule:
    """The schedule of that name; the base rate is the optimizer's.

    ``cosine`` warms up from half the base rate, then falls to ``final``, where it stays; ``linear`` falls
    in a straight line without warm-up; ``constant`` is flat after its warm-up; ``plateau`` is too, and
    halves after validations that bring nothing; ``legacy`` is T5's inverse square root with a base rate of
    its own.

    Args:
        name: key of ``SCHEDULE_TABLE``.
        optimizer: all its groups get the same rate.
        warmup_steps: steps of linear warm-up.
        final: absolute rate at the end; above the base rate it is replaced by 0.1 x base, with a notice.
        total_steps: steps of the run, None when not limited.
        time_budget: the run has a budget of time, so a falling schedule needs no number of steps.
        self_paced: the optimizer chooses its own rate (:func:`.paces_itself`); no schedule applies.

    Raises:
        ValueError: for an unknown name, or a falling schedule on a run without an end.
    """
    if name not in SCHEDULE_TABLE:
        raise unknown_name("scheduler", name, SCHEDULE_TABLE)
    base = float(optimizer.param_groups[0]["lr"])
    notices: list[str] = []
    kind = SCHEDULE_TABLE[name]
    if self_paced:
        notices.append(
            f"-o {type(optimizer).__name__} finds its own learning rate: -s {name} and warm-up have no "
            "effect; give -lr for a schedule"
        )
        name, kind, warmup_steps = "constant", SCHEDULE_TABLE["constant"], 0
    if kind.needs_end and total_steps is None and not time_budget:
        raise ValueError(
            f"-s {name} needs to know where the run ends: give --max-minutes M, -it STEPS or -e EPOCHS "
            "(0 minutes are no end), or use -s constant"
        )
    if warmup_steps and not kind.warms_up:
        notices.append(f"-s {name} has no warm-up: AMT_WARMUP_STEPS has no effect")
        warmup_steps = 0
    if warmup_steps and total_steps is not None and warmup_steps >= total_steps:
        notices.append(
            f"the warm-up of {counted(warmup_steps, 'step')} (AMT_WARMUP_STEPS) is not shorter than the run "
            f"of {total_steps}: the rate rises all the time"
        )
    if kind.base is not None and base != kind.base:
        notices.append(f"-s {name} has the base rate {kind.base:g}, whatever -lr and the optimizer say")
        base = kind.base
    if kind.needs_end and final > base:
        notices.append(
            f"the end rate {final:g} of -s {name} is above the base rate {base:g}; "
            f"{FLOOR_SHARE * base:g} (0.1 x base) is used instead"
        )
        final = FLOOR_SHARE * base
    make = PlateauSchedule if name == "plateau" else StepSchedule
    return make(
        optimizer,
        curve=kind.curve,
        base=base,
        end=final,
        warmup_steps=warmup_steps,
        warmup_start=0.5,
        total_steps=total_steps,
        notice="; ".join(notices),
    )
