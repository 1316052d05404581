"""How long a run is and what a step holds, worked out once from the experiment and the number of processes.

A step is one optimizer update attempt of all ranks, skipped ones included; with accumulation it is several
batches. An epoch is a whole number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ..config import Experiment
from ..config.names import counted

TIMEOUT = timedelta(minutes=30)
"""Time that ranks wait for each other."""


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes."""

    folder: Path
    """``logs/<project>/<exp_id>``."""
    data_home: Path
    """Folder of the prepared data sets."""


@dataclass(frozen=True)
class RunPlan:
    """Numbers of a run that depend on how many processes train."""

    world_size: int
    samples_per_step: int
    """Global batch: ranks x local batch x accumulation."""
    steps_per_epoch: int
    max_steps: int | None
    """Steps of the run; None when only time, or nothing, ends it."""
    budget_seconds: float
    """Training time without validation after which the run ends; 0 is no budget."""
    epochs: int = 0
    """The epochs that ``max_steps`` comes from; 0 where it was given itself."""

    @property
    def end(self) -> str:
        """Where the run ends, in words, such as ``200 steps or 10 minutes``; empty where nothing ends it."""
        ends = [] if self.max_steps is None else [counted(self.max_steps, "step")]
        if self.budget_seconds:
            minutes = self.budget_seconds / 60
            ends.append(f"{minutes:g} minute{'' if minutes == 1 else 's'}")
        return " or ".join(ends)

    def epoch(self, consumed_samples: int) -> int:
        """Whole epochs in that many samples."""
        return consumed_samples // (self.steps_per_epoch * self.samples_per_step)


def plan_run(experiment: Experiment, world_size: int = 1) -> RunPlan:
    """The plan of a run on ``world_size`` processes."""
    trainer = experiment.trainer
    samples = world_size * experiment.bsz.local * trainer.accumulate_grad_batches
    steps_per_epoch = max(1, experiment.data.samples_per_epoch // samples)
    max_steps, epochs = (trainer.max_steps if trainer.max_steps > 0 else None), 0
    if max_steps is None and trainer.max_epochs > 0:
        max_steps, epochs = trainer.max_epochs * steps_per_epoch, trainer.max_epochs
    return RunPlan(world_size, samples, steps_per_epoch, max_steps, 60.0 * trainer.max_minutes, epochs)
