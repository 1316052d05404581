"""Clocks of training: time without validation, and how much of it was waiting for data."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytorch_lightning.profilers import PassThroughProfiler

_FETCH = "train_dataloader_next"


class TrainingClock:
    """Seconds spent training; validation pauses it. Continues from a saved number on resume.

    Args:
        now: the time source, for tests.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._before = 0.0
        self._since: float | None = None
        self._wait_since: float | None = None
        self._wait = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, those of earlier starts included."""
        return self._before + (0.0 if self._since is None else self._now() - self._since)

    def restore(self, seconds: float) -> None:
        """Start counting from a saved number of seconds."""
        self._before = seconds
        self._since = None

    def run(self) -> None:
        """Start, or go on after a pause."""
        if self._since is None:
            self._since = self._now()

    def pause(self) -> None:
        """Stop counting until :meth:`run`."""
        self._before = self.elapsed
        self._since = None

    def wait_started(self) -> None:
        """The loader is asked for a batch."""
        self._wait_since = self._now()

    def wait_ended(self) -> None:
        """The batch is there."""
        if self._wait_since is not None and self._since is not None:
            self._wait += self._now() - self._wait_since
        self._wait_since = None

    def take_wait(self) -> float:
        """Seconds waited for data since the last call."""
        wait, self._wait = self._wait, 0.0
        return wait


class DataWaitProfiler(PassThroughProfiler):
    """Measures nothing but the time the training loop waits for its loader."""

    def __init__(self, clock: TrainingClock) -> None:
        super().__init__()
        self._clock = clock

    def start(self, action_name: str) -> None:
        """Called by Lightning before each of its actions."""
        if action_name.endswith(_FETCH):
            self._clock.wait_started()

    def stop(self, action_name: str) -> None:
        """Called by Lightning after each of its actions."""
        if action_name.endswith(_FETCH):
            self._clock.wait_ended()


class Throughput:
    """Rates over the steps since the last reading."""

    def __init__(self, clock: TrainingClock) -> None:
        self._clock = clock
        self.start()

    def start(self) -> None:
        """Count from here; to be called when the clock runs on from a saved number."""
        self._since = self._clock.elapsed
        self._segments = 0
        self._tokens = 0

    def add(self, segments: int, tokens: int) -> None:
        """Count one step of all ranks."""
        self._segments += segments
        self._tokens += tokens

    def read(self) -> dict[str, float]:
        """``segments_per_second``, ``tokens_per_second`` (all ranks) and ``data_wait_share`` (this rank)
        since the last call; empty when no time has passed."""
        seconds = self._clock.elapsed - self._since
        if seconds <= 0 or not self._segments:
            return {}
        rates = {
            "segments_per_second": self._segments / seconds,
            "tokens_per_second": self._tokens / seconds,
            "data_wait_share": min(1.0, self._clock.take_wait() / seconds),
        }
        self.start()
        return rates
