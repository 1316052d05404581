"""The callback that owns saving: when a checkpoint is written, under which names, and which files stay."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.trainer.states import TrainerFn

from ...config import CheckpointConfig, unknown_name
from ...model.checkpoint_header import (
    CALLBACK_KEY,
    file_stamp,
    parse_lineage,
    parse_ranking,
    read_header,
    sidecar_path,
)
from ...model.checkpoint_names import LAST_NAME
from ...model.checkpoint_write import CheckpointWriteError, write_text
from ..checkpoint_io import copy_file
from ..interrupts import what_is_kept
from ..run_folder import remove_stale_temporaries
from ..signals import SignalMemory
from .ranking import Ranking, Row, check_template_names, file_name, scores_in_names, validate_template


def current_step(trainer: pl.Trainer) -> int:
    """Steps of the run: optimizer update attempts, skipped ones included.

    ``trainer.global_step`` counts calls of ``optimizer.step``; with several optimizers (manual
    optimisation) that is several per step.
    """
    return trainer.global_step // max(1, len(trainer.optimizers))


class CustomModelCheckpoint(Checkpoint):
    """Saves ``last.ckpt`` at every save point and keeps the best files by a validation score.

    Save points: after each validation (also a gated one that gave no score), before it
    (``save_before_val``, ``preval-step=N.ckpt``), every N steps (``step=N.ckpt``), at a signal
    (:meth:`save_and_stop`) and at the end of fit. Each replaces ``last.ckpt``, a real file, by the state
    of this step, serialised once; further names are copies of its bytes. ``last.json`` beside it says the
    step in plain text.

    A score that is missing or not finite never makes a best file. Equal scores: the earlier file stays.
    The ranking is kept in the checkpoint with file names relative to the folder, so a run can be moved.

    Nothing is written while ``pl_module.saving_allowed`` is False (a streak of non-finite losses in a run
    that goes on). When a file cannot be written (disk full), the previous one stays, a warning says so and
    the run goes on; :attr:`last_error` holds the reason until a later save succeeds.

    Args:
        config: what is saved and when.
        folder: the run's ``checkpoints/`` folder.

    A module may list the names it logs in ``validation_keys``; a monitor that is not among them is then
    refused before the first step, else after the first validation.
    """

    def __init__(self, config: CheckpointConfig, folder: Path) -> None:
        super().__init__()
        validate_template(config.filename)
        self.config = config
        self.folder = folder
        self.last_path = folder / LAST_NAME
        self.last_validated_step = -1
        self.last_score: float | None = None
        self.last_error: str | None = None
        self._ranking = Ranking(config.mode, config.save_top_k)
        self._lineage: list[tuple[str, int]] = []
        self._removed: list[str] = []
        self._restored = False
        self._seen_step = -1
        self._saved_at: tuple[int, int] | None = None
        self._whole_step: int | None = None  # of the last save that did not fail
        self._monitor_seen = False
        self._in_validation = False
        self._known_keys: set[str] = set()
        self._signals = SignalMemory(self.what_is_kept)

    @property
    def received_signal(self) -> signal.Signals | None:
        """The signal that this process got, if any."""
        return self._signals.received

    def what_is_kept(self) -> str:
        """What is left of the run when it ends at this moment, in words."""
        return what_is_kept(self._whole_step)

    @property
    def state_key(self) -> str:
        """Key of this callback's state in a checkpoint."""
        return CALLBACK_KEY

    @property
    def best_model_path(self) -> str:
        """Path of the best file, "" when there is none (the name Lightning knows it by)."""
        best = self._ranking.best()
        return "" if best is None else str(self.folder / best[0])

    @property
    def best_model_score(self) -> float | None:
        """Score of the best file."""
        best = self._ranking.best()
        return None if best is None else best[1]

    @property
    def ranking(self) -> list[Row]:
        """The best files as (name, score, step), best first."""
        return list(self._ranking.rows)

    def state_dict(self) -> dict[str, Any]:
        """Plain values only; names are relative to the folder."""
        return {
            "monitor": self.config.monitor,
            "mode": self.config.mode,
            "ranking": [list(row) for row in self._ranking.rows],
            "removed": list(self._removed),
            "lineage": [list(pair) for pair in self._lineage],
            "last_validated_step": self.last_validated_step,
            "last_score": self.last_score,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of the run that is resumed; the files are looked at when training starts."""
        self._restored = state_dict.get("monitor") == self.config.monitor
        self._restored = self._restored and state_dict.get("mode") == self.config.mode
        if self._restored:
            self._ranking.rows = parse_ranking(state_dict.get("ranking"))
            self._removed = [str(name) for name in state_dict.get("removed", [])]
            self.last_score = state_dict.get("last_score")
        self._lineage = list(parse_lineage(state_dict.get("lineage")))
        self.last_validated_step = int(state_dict.get("last_validated_step", -1))

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Make the folder and clear what a killed save left behind."""
        if stage == TrainerFn.FITTING.value and trainer.is_global_zero:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ValueError(f"the checkpoint folder {self.folder} cannot be made: {error}") from error
            for name in remove_stale_temporaries(self.folder):
                rank_zero_info(f"checkpoint: removed {name}, left by a save that was killed")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Continue or begin the ranking and the lineage; take over the signals."""
        keys = getattr(pl_module, "validation_keys", None)
        if keys is not None:
            if self.config.monitor not in keys:
                raise self._unknown_monitor(set(keys))
            check_template_names(self.config.filename, set(keys))
            self._monitor_seen = True
        step = current_step(trainer)
        self._seen_step = step
        if step > 0:
            self._saved_at = (step, self.last_validated_step)
            self._whole_step = step
            self._resume_ranking(trainer.is_global_zero)
        if step > 0 and not self._lineage:
            self._lineage = [("unknown", 0)]
        self._lineage.append((secrets.token_hex(8), step))
        self._signals.install()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save every N steps, and when this was the last step."""
        step = current_step(trainer)
        if step == self._seen_step:  # inside an accumulation window
            return
        self._seen_step = step
        every = self.config.save_every_n_train_steps
        names = [f"step={step}.ckpt"] if every and step % every == 0 else []
        # The end is saved here and not only in on_train_end: there Lightning has closed the epoch, and a
        # run that goes on later with a larger limit would start a new one in the middle.
        if names or trainer.should_stop or 0 <= trainer.max_steps <= step:
            self._save(trainer, pl_module, names)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the previous validation's score; save before validation if asked."""
        if not self._in_fit(trainer):
            return
        self._in_validation = True
        trainer.callback_metrics.pop(self.config.monitor, None)
        self._known_keys = set(trainer.callback_metrics)
        if self.config.save_before_val:
            self._save(trainer, pl_module, [f"preval-step={current_step(trainer)}.ckpt"])

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Rank this step by its score and save; call it alone for a validation that was left out."""
        if not self._in_fit(trainer):
            return
        if getattr(pl_module, "validation_cut", False):  # by a signal: it is still due, the module saves
            self._in_validation = False
            return
        metrics: dict[str, float] = {}
        if self._in_validation:  # else the values there are of an earlier validation
            metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        self._in_validation = False
        score = metrics.get(self.config.monitor)
        new_keys = set(metrics) - self._known_keys
        if score is not None:
            self._monitor_seen = True
        elif new_keys and not self._monitor_seen:
            raise self._unknown_monitor(new_keys)
        self.last_validated_step = current_step(trainer)
        self.last_score = score
        self._save(trainer, pl_module, [], metrics if score is not None and math.isfinite(score) else None)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the end of fit, unless this step is saved already; give the signals back."""
        self._save(trainer, pl_module, [])
        self._signals.restore()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Give the signals back; nothing is saved, the last save point stands."""
        self._signals.restore()

    def signal_flag(self) -> int:
        """1 once this process got one of ``SIGNALS``, else 0; reduce with MAX over the ranks at each step."""
        return int(self.received_signal is not None)

    def save_and_stop(self, trainer: pl.Trainer) -> None:
        """Save and end the fit; call on all ranks in ``on_train_batch_end`` when the reduced flag is set."""
        trainer.should_stop = True
        self._save(trainer, trainer.lightning_module, [])
        name = self.received_signal.name if self.received_signal else "a signal at another rank"
        rank_zero_info(f"checkpoint: stopping at step {current_step(trainer)} because of {name}")
        trainer.limit_val_batches = 0  # Lightning validates once more when should_stop is set

    # --- saving -------------------------------------------------------------------------------------

    def _save(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        names: list[str],
        metrics: dict[str, float] | None = None,
    ) -> None:
        """Write ``last.ckpt`` and its copies ``names``; with ``metrics`` the file is ranked by its score.

        Every rank comes here at the same points; only rank 0 touches files.
        """
        step = current_step(trainer)
        if step == 0 or not getattr(pl_module, "saving_allowed", True):
            return
        before = (list(self._ranking.rows), self._removed)
        if metrics is not None:
            best_name = file_name(self.config.filename, trainer.current_epoch, step, metrics)
            kept, self._removed = self._ranking.add(best_name, metrics[self.config.monitor], step)
            names = [*names, best_name] if kept else names
        state = (step, self.last_validated_step)
        if state != self._saved_at:
            # Set on every rank before the attempt: all must agree on who serialises, also after a failure.
            self._saved_at = state
            try:
                trainer.save_checkpoint(self.last_path)
            except CheckpointWriteError as error:
                trainer.strategy.barrier("Trainer.save_checkpoint")  # the one the error skipped
                self._ranking.rows, self._removed = before
                self._report(step, error)
                return
            self.last_error = None
            self._whole_step = step
        if trainer.is_global_zero and self.last_error is None:
            self._finish(trainer, step, names, before[0])

    def _finish(self, trainer: pl.Trainer, step: int, names: list[str], rows_before: list[Row]) -> None:
        """Rank 0, after ``last.ckpt``: the copies, the sidecar, then the files that fell out."""
        try:
            for name in names:
                copy_file(self.last_path, self.folder / name)
            self._write_sidecar(trainer, step)
        except OSError as error:
            name = Path(str(error.filename)).name if error.filename else "a copy"
            rank_zero_warn(
                f"checkpoint: {LAST_NAME} holds step {step}, but {name} could not be written "
                f"({error.strerror or error}); the run goes on. Make room in {self.folder}"
            )
            self._ranking.rows, self._removed = rows_before, []
            return
        self._remove_fallen()

    def _remove_fallen(self) -> None:
        ranked = {name for name, _, _ in self._ranking.rows}
        for name in self._removed:
            if name not in ranked:
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink(missing_ok=True)
        self._removed = []

    def _write_sidecar(self, trainer: pl.Trainer, step: int) -> None:
        best = self._ranking.best()
        score = self.last_score if self.last_score is not None and math.isfinite(self.last_score) else None
        size, crc = file_stamp(self.last_path)
        content = {
            "file": LAST_NAME,
            "step": step,
            "epoch": getattr(trainer.lightning_module, "epoch_number", trainer.current_epoch),
            "last_validated_step": self.last_validated_step,
            "monitor": self.config.monitor,
            "score": score,
            "best": None if best is None else {"file": best[0], "score": best[1], "step": best[2]},
            "size": size,
            "crc": crc,
            "run_uid": self._lineage[0][0],
            "lineage": [list(pair) for pair in self._lineage],
            "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_text(sidecar_path(self.last_path), text + "\n")

    def _report(self, step: int, error: OSError) -> None:
        name = Path(str(error.filename)).name if error.filename else LAST_NAME
        reason = error.strerror or str(error)
        self.last_error = f"{name}: {reason}"
        rank_zero_warn(
            f"checkpoint: step {step} was NOT saved ({self.last_error}); the previous files are whole and "
            f"the run goes on. Make room in {self.folder}: the next save point tries again"
        )

    # --- resuming -----------------------------------------------------------------------------------

    def _resume_ranking(self, touches_files: bool) -> None:
        """Bring the ranking in line with the files: a kill may have come between ``last.ckpt`` and these."""
        if self.config.reset_topk_on_resume:
            self._ranking.rows, self._removed = [], []
            rank_zero_info(
                "checkpoint: the ranking starts anew (AMT_RESET_TOPK_ON_RESUME=1); older files stay"
            )
            return
        if not self._restored:
            self._ranking.rows = scores_in_names(self.folder, self.config.monitor)
            self._ranking.sort()
            return
        if not touches_files:
            return
        missing = [row[0] for row in self._ranking.rows if not (self.folder / row[0]).is_file()]
        newest = read_header(self.last_path) if missing else None
        for name, _, step in list(self._ranking.rows):
            if name in missing and newest is not None and newest.step == step and name in newest.ranking:
                with contextlib.suppress(OSError):
                    copy_file(self.last_path, self.folder / name)
        self._ranking.rows = [row for row in self._ranking.rows if (self.folder / row[0]).is_file()]
        self._ranking.sort()
        self._remove_fallen()

    def _unknown_monitor(self, keys: set[str]) -> ValueError:
        return unknown_name("checkpoint monitor", self.config.monitor, keys)

    @staticmethod
    def _in_fit(trainer: pl.Trainer) -> bool:
        return trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
