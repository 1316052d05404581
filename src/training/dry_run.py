"""``--dry-run``: everything is built, one step is taken, nothing is written."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from .counting import CountingModule
from .memory import GIB, peak_bytes


class OneStep(Callback):
    """Ends training after one step, without validation."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """From the start of training to the end of the step, loading included."""
        self._first = 0
        self._began = 0.0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """That nobody saves here is on purpose."""
        warnings.filterwarnings("ignore", message=".*callbacks used to create the checkpoint.*")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Nothing is validated."""
        trainer.limit_val_batches = 0
        self._first = pl_module.global_step
        self._began = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop at the end of the accumulation window."""
        if pl_module.global_step > self._first:
            self.seconds = time.monotonic() - self._began
            trainer.should_stop = True

    def describe(self, module: CountingModule) -> str:
        """What happened, as one line."""
        report = module.report
        assert report is not None, "a step was taken"
        loss = "not finite" if report.dropped else f"{report.loss:.4f}"
        memory = f"at most {peak_bytes(module.device) / GIB:.1f} GiB of "
        if module.device.type == "cuda":
            memory += "the GPU for its tensors"
        else:
            memory += "memory for the whole process, Python and its libraries included"
        return (
            f"dry run: everything is built, step {report.step} took {self.seconds:.1f} s, loss {loss}, "
            f"{memory}; nothing was written"
        )
