"""The progress line: always there, a live bar in a terminal and a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ..config.names import counted
from .module import TranscriptionModule
from .steps import StepReport

PLAIN_SECONDS = 10.0
"""Time between two plain lines of training."""
VALIDATING_SECONDS = 30.0
"""Time between two plain lines of a validation."""
LIVE_SECONDS = 0.25
"""Time between two updates of the bar."""
BAR_COLUMNS = 21
"""Width of the bar with the space after it."""
WIDE_COLUMNS = 110
"""Width of a terminal that has room for the bar beside the numbers."""
SMOOTHING = 0.98
"""Weight of the past in the shown loss, per step."""


class ProgressLine(Callback):
    """Shows step, loss, learning rate, segments per second, time left and the last validation score.

    Only rank 0 shows anything. The loss of a skipped step shows as 0 while it lasts.

    Args:
        stream: where to write; standard error by default.
        live: a bar that redraws itself; by default when ``stream`` is a terminal.
        now: the time source, for tests.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        live: bool | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty() if live is None else live
        self._now = now
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._wide = False
        self._loss: float | None = None
        self._shown_at = 0.0
        self._shown_step = -1
        self._rate_from = (0.0, 0)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the bar."""
        if not trainer.is_global_zero:
            return
        assert isinstance(pl_module, TranscriptionModule)
        self._rate_from = (pl_module.clock.elapsed, pl_module.global_step)
        self._shown_at = self._now()
        if self._live:
            console = Console(file=self._stream)
            self._wide = console.width >= WIDE_COLUMNS
            bar = (BarColumn(bar_width=BAR_COLUMNS - 1),) if self._wide else ()
            columns = (TextColumn("{task.description}"), *bar, TextColumn("{task.fields[text]}"))
            self._bar = Progress(*columns, console=console, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task("train", total=1.0, text="starting")

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Show the step when it is time."""
        assert isinstance(pl_module, TranscriptionModule)
        report = pl_module.report
        if not trainer.is_global_zero or report is None:
            return
        if not report.dropped:
            before = report.loss if self._loss is None else self._loss
            self._loss = SMOOTHING * before + (1 - SMOOTHING) * report.loss
        pause = LIVE_SECONDS if self._live else PLAIN_SECONDS
        if self._now() - self._shown_at >= pause or trainer.should_stop:
            self._show(pl_module, report)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say that validation has begun, and show from now on how far it is."""
        if not trainer.is_global_zero or trainer.sanity_checking:
            return
        assert isinstance(pl_module, TranscriptionModule)
        began = self._shown_at = self._now()
        total = sum(int(count) for count in trainer.num_val_batches)

        def show(done: int) -> None:
            if self._now() - self._shown_at < (LIVE_SECONDS if self._live else VALIDATING_SECONDS):
                return
            self._shown_at = self._now()
            self._show_text(f"validating {done}/{total} songs, {format_seconds(self._shown_at - began)}")

        pl_module.validator.on_progress = show
        if self._live:
            self._show_text("validating ...")
        else:
            each = " on each rank" if trainer.world_size > 1 else ""
            self._show_text(f"validation  step {pl_module.global_step}  {counted(total, 'song')}{each}")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the scores of a validation on a line of their own."""
        if not trainer.is_global_zero or trainer.sanity_checking:
            return
        assert isinstance(pl_module, TranscriptionModule)
        if self._live:  # in place of how far the validation was
            if pl_module.report is not None:
                self._show(pl_module, pl_module.report)
            else:
                self._show_text("validated")
        if getattr(pl_module, "validation_cut", False):
            self._print(f"validation  step {pl_module.global_step}  cut short by a signal")
            return
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        parts = [f"step {pl_module.global_step}"]
        for name, label in (
            ("validation/macro_onset_f", "onset F1"),
            ("validation/macro_offset_f", "onset-offset F1"),
            ("val_loss", "loss"),
        ):
            if name in metrics:
                parts.append(f"{label} {metrics[name]:.4f}")
        self._print("validation  " + "  ".join(parts))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the last step and close the bar."""
        assert isinstance(pl_module, TranscriptionModule)
        report = pl_module.report
        if trainer.is_global_zero and report is not None and report.step != self._shown_step:
            self._show(pl_module, report)
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Close the bar so that the error stands below it."""
        self._close()

    def _show(self, module: TranscriptionModule, report: StepReport) -> None:
        self._shown_at = self._now()
        self._shown_step = report.step
        parts = self._parts(module, report)
        if self._bar is None or self._task is None:
            print("train " + fitted(parts), file=self._stream, flush=True)
        else:
            room = self._bar.console.width - len("train ") - (BAR_COLUMNS if self._wide else 0)
            text = fitted(parts, room)
            self._bar.update(self._task, completed=self._share(module, report.step), text=text, refresh=True)

    def _parts(self, module: TranscriptionModule, report: StepReport) -> list[tuple[str, int]]:
        """What is shown, each with its weight: those of least weight go where there is no room."""
        plan = module.plan
        loss = 0.0 if report.dropped or self._loss is None else self._loss
        limit = "" if plan.max_steps is None else f"/{plan.max_steps}"
        parts = [(f"step {report.step}{limit}", 6), (f"loss {loss:.4f}", 5), (f"lr {report.rate:.2e}", 1)]
        since, first = self._rate_from
        seconds, steps = module.clock.elapsed - since, report.step - first
        if seconds > 0 and steps > 0:
            parts.append((f"{steps * plan.samples_per_step / seconds:.1f} segments/s", 0))
            left = self._seconds_left(module, report.step, steps / seconds)
            if left is not None:
                parts.append((f"left {format_seconds(left)}", 2))
        if module.last_score is not None:
            parts.append((f"F1 {module.last_score:.4f}", 4))
        if module.guard.num_dropped:
            parts.append((f"skipped {module.guard.num_dropped}", 3))
        return parts

    @staticmethod
    def _seconds_left(module: TranscriptionModule, step: int, steps_per_second: float) -> float | None:
        plan = module.plan
        ends = []
        if plan.max_steps is not None:
            ends.append((plan.max_steps - step) / steps_per_second)
        if plan.budget_seconds:
            ends.append(plan.budget_seconds - module.clock.elapsed)
        return max(0.0, min(ends)) if ends else None

    @staticmethod
    def _share(module: TranscriptionModule, step: int) -> float:
        plan = module.plan
        by_step = step / plan.max_steps if plan.max_steps else 0.0
        by_time = module.clock.elapsed / plan.budget_seconds if plan.budget_seconds else 0.0
        return min(1.0, max(by_step, by_time))

    def _show_text(self, text: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, text=text, refresh=True)
        elif not self._live:
            print(text, file=self._stream, flush=True)

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, highlight=False)
        else:
            print(line, file=self._stream, flush=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def fitted(parts: Sequence[tuple[str, int]], room: int | None = None) -> str:
    """The parts in one line of at most ``room`` characters, without those of least weight if need be."""
    kept = list(parts)
    while True:
        line = "  ".join(text for text, _ in kept)
        if room is None or len(line) <= room or len(kept) == 1:
            return line
        kept.remove(min(kept, key=lambda part: part[1]))


def format_seconds(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
