"""No validation before the training loss has come down: decoding nonsense takes longest."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_info


class ValidationGateByTrainLoss(Callback):
    """Leaves out validations until the mean training loss since the last one is below a threshold.

    The mean is taken over all ranks before it is compared, so all of them decide alike. Once open, the
    gate stays open. A validation that is left out is still a save point.

    Args:
        threshold: the loss to get below (``AMT_VAL_START_TRAIN_LOSS_THRESHOLD``).
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.is_open = False
        self._total = 0.0
        self._count = 0
        self._seen_step = -1

    @property
    def state_key(self) -> str:
        """Key of this callback's state in a checkpoint."""
        return type(self).__name__

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"is_open": self.is_open, "total": self._total, "count": self._count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as saved."""
        self.is_open = bool(state_dict["is_open"])
        self._total = float(state_dict["total"])
        self._count = int(state_dict["count"])

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Close the gate if it was not open."""
        self._seen_step = pl_module.global_step
        if not self.is_open:
            trainer.limit_val_batches = 0

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Decide when a validation is due."""
        step = pl_module.global_step
        report = getattr(pl_module, "report", None)
        if self.is_open or step == self._seen_step or report is None:
            return
        self._seen_step = step
        if not report.dropped:
            self._total += report.loss
            self._count += 1
        due = (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_batch or 1) == 0
        if not due:
            return
        mean = self._mean(pl_module)
        self._total, self._count = 0.0, 0
        if mean < self.threshold:
            self.is_open = True
            trainer.limit_val_batches = 1.0
            rank_zero_info(
                f"step {step}: training loss {mean:.4f} is below {self.threshold:g}: validation begins"
            )
            return
        rank_zero_info(
            f"step {step}: no validation, training loss {mean:.4f} is not below {self.threshold:g} yet"
        )
        setattr(pl_module, "last_validated_step", step)  # noqa: B010 - any module of ours has it
        for callback in trainer.checkpoint_callbacks:
            callback.on_validation_end(trainer, pl_module)

    def _mean(self, pl_module: pl.LightningModule) -> float:
        sums = torch.tensor([self._total, self._count], dtype=torch.float64, device=pl_module.device)
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
        total, count = sums.tolist()
        return float(total / count) if count else float("inf")
