"""Faults on order (``AMT_FAULT``), for drills and tests of what happens then."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from ..model.checkpoint_write import write_text


def fault_point(place: str, fault: str) -> None:
    """A place where ``fault`` (``AMT_FAULT``) strikes each time if it names it: ``kill@save``.

    Raises:
        OSError: "no space left on device" for ``full-disk@save``.
    """
    if fault == f"kill@{place}":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == f"full-disk@{place}":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class StepFault:
    """``nan@STEP:RANK`` or ``kill@STEP``; steps count from 1, other faults do nothing here.

    A NaN belongs to its step: a run resumed before it meets it again, as it would meet bad data, and goes the
    same way as a run that was never stopped. A kill strikes once in a run folder, or none could pass it.

    Args:
        text: ``AMT_FAULT``.
        memory: file that remembers the kill that has struck; rank 0 writes it. None forgets.
    """

    def __init__(self, text: str, memory: Path | None = None) -> None:
        match = re.fullmatch(r"nan@(\d+):(\d+)|kill@(\d+)", text)
        self._text = text
        self._memory = memory
        self._step = -1 if match is None else int(match[1] or match[3])
        self._nan_rank = -1 if match is None or match[2] is None else int(match[2])

    def arm(self) -> None:
        """Look at what has struck; call when training starts, before any step."""
        if self._text in self._struck():
            self._step = -1

    def spoils(self, step: int, rank: int) -> bool:
        """Whether the loss of this step and rank becomes NaN."""
        return (self._step, self._nan_rank) == (step, rank)

    def strike(self, step: int, rank: int, barrier: Callable[[], object]) -> None:
        """Call on every rank after each step; does not return where the process is killed.

        Args:
            step: the step that ended.
            rank: of this process.
            barrier: meets all ranks, so that none dies before rank 0 has made a note.
        """
        if step != self._step or self._nan_rank >= 0:
            return
        if rank == 0 and self._memory is not None:
            write_text(self._memory, "\n".join([*self._struck(), self._text]) + "\n")
        barrier()
        os.kill(os.getpid(), signal.SIGKILL)

    def _struck(self) -> list[str]:
        if self._memory is None or not self._memory.is_file():
            return []
        return self._memory.read_text(encoding="utf-8").split()
