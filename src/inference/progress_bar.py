"""How far a transcription is: a bar on a terminal, now and then a line elsewhere. Both on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

LINE_SECONDS = 30.0
"""Seconds between two lines where there is no terminal; shorter work says nothing."""


class ProgressBar:
    """Shows work done of work in all, and how many times faster than real time it goes.

    Args:
        name: what is being done.
        unit: what is counted.
    """

    def __init__(self, name: str, unit: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._name, self._unit = name, unit
        self._has_terminal = console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} " + unit),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._has_terminal,
            redirect_stdout=sys.stdout is not None
            and sys.stdout.isatty(),  # what goes into a pipe stays there
        )
        self._task = self._bar.add_task(name, total=None, rate="")
        self._begun = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, done: int, total: int, seconds: float) -> None:
        """``done`` of ``total`` are done, which is ``seconds`` of sound."""
        now = time.monotonic()
        rate = real_time(seconds, now - self._begun)
        if self._has_terminal:
            self._bar.update(self._task, completed=done, total=total, rate=rate)
        elif now - self._said > LINE_SECONDS and done < total:
            self._said = now
            print(f"{self._name}: {done} of {total} {self._unit}, {rate}", file=sys.stderr, flush=True)


def real_time(seconds: float, elapsed: float) -> str:
    """``seconds`` of sound in ``elapsed`` seconds, in words."""
    factor = seconds / elapsed if elapsed > 0 else float("inf")
    return f"{factor:.0f} times real time" if factor >= 10 else f"{factor:.1f} times real time"
