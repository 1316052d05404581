"""The place of a module in its run: steps, samples and epochs, and logging under them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytorch_lightning as pl
import torch

from .plan import RunPlan
from .steps import EpochMean, StepReport


class CountingModule(pl.LightningModule):
    """Counts steps, samples and epochs as the run does; Lightning sees one endless epoch.

    Args:
        plan: lengths of the run.
    """

    def __init__(self, plan: RunPlan) -> None:
        super().__init__()
        self.plan = plan
        self.report: StepReport | None = None
        """The last finished step."""
        self.epoch_loss = EpochMean()
        self._first_step = 0
        self._first_sample = 0

    @property
    def consumed_samples(self) -> int:
        """Samples of all ranks in the steps taken; the position the data goes on from."""
        return self._first_sample + (self.global_step - self._first_step) * self.plan.samples_per_step

    @property
    def epoch_number(self) -> int:
        """Whole epochs of ``samples_per_epoch`` segments."""
        return self.plan.epoch(self.consumed_samples)

    def continue_from(self, step: int, samples: int) -> None:
        """Count steps and samples on from a checkpoint's."""
        self._first_step = step
        self._first_sample = samples

    def show_epoch(self) -> None:
        """Give Lightning our epoch, for file names and logs."""
        current = cast(Any, self.trainer.fit_loop.epoch_progress.current)
        current.processed = current.completed = self.epoch_number

    def log_numbers(self, values: Mapping[str, float], *, on_step: bool) -> None:
        """Log under our own step and epoch, in double precision."""
        numbers = {**values, "step": self.global_step, "epoch": self.epoch_number}
        tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
        self.log_dict(tensors, on_step=on_step, on_epoch=not on_step, batch_size=1)

    def log_epoch_mean(self, step: int) -> None:
        """Log the mean loss of an epoch over all ranks when this step ended one, without dropped steps."""
        before = self.consumed_samples - self.plan.samples_per_step
        if self.plan.epoch(before) == self.epoch_number:
            return
        mean = self.epoch_loss.take(self.plan.world_size, self.device)
        for logger in self.loggers if mean is not None else ():
            logger.log_metrics({"train_loss_epoch": cast(float, mean), "epoch": self.epoch_number}, step)
