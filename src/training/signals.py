"""Signals: they are only remembered, all ranks hear of one without a meeting, and SLURM is asked to run the
job again. Ctrl-C is one of them; only a second one ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from .launcher import local_rank

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_KEY = "amt/stop"


class SignalMemory:
    """Remembers a signal instead of acting on it, while its handlers are in place.

    Args:
        kept: says what is left of the run when it ends at once.
    """

    def __init__(self, kept: Callable[[], str]) -> None:
        self._kept = kept
        self.received: signal.Signals | None = None
        """The last one; None until then."""
        self._old_handlers: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Replace the handlers, Lightning's among them: it broadcasts and raises in the handler."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._old_handlers[number] = signal.signal(number, self._remember)

    def restore(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._old_handlers = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self.received == signal.SIGINT:
                signal.default_int_handler(number, frame)
            if local_rank(os.environ) == 0:
                said = (
                    "Ctrl-C: saves after this step and stops; a second Ctrl-C does not wait for that, and "
                    f"then {self._kept()}"
                )
                print(f"\n{said}", file=sys.stderr, flush=True)  # on a line of its own
        self.received = signal.Signals(number)


class StopWish:
    """Set on one rank, seen by all: through the store that the process group keeps anyway.

    Args:
        world_size: number of ranks; 1 needs no store.
    """

    def __init__(self, world_size: int) -> None:
        self._shared = world_size > 1
        self._seen = False

    def look(self, own: bool) -> bool:
        """Whether some rank wishes to stop; ``own`` is this rank's wish. Waits for nobody."""
        if self._seen or not self._shared or not dist.is_initialized():
            return self._seen or own
        store = _get_default_store()
        if own:
            store.set(_KEY, "1")
            self._seen = True
        elif store.check([_KEY]):
            self._seen = True
        return self._seen


def requeue(environ: Mapping[str, str], say: Callable[[str], object]) -> None:
    """Put a SLURM job that got SIGUSR1 (``--signal=USR1@SECONDS``) back into the queue; elsewhere do nothing.

    The job then starts again with ``SLURM_RESTART_COUNT`` and resumes. On SIGTERM SLURM itself decides.
    """
    job = environ.get("SLURM_JOB_ID", "")
    if environ.get("SLURM_ARRAY_JOB_ID") and environ.get("SLURM_ARRAY_TASK_ID"):
        job = f"{environ['SLURM_ARRAY_JOB_ID']}_{environ['SLURM_ARRAY_TASK_ID']}"
    if not job:
        return
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, timeout=60, check=False
        )
        problem = done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    say(
        f"run: SLURM job {job} could not be requeued ({problem})"
        if problem
        else f"run: SLURM job {job} requeued"
    )
