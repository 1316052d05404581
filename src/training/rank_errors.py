"""An error in one process ends all of them, and is heard."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytorch_lightning as pl

from .nonfinite import NonFiniteLossError
from .trainer import Hardware

GRACE_SECONDS = 10.0
"""Time that further processes of this machine have to say what is wrong with them before they are ended."""


@contextlib.contextmanager
def errors_end_all(trainer: pl.Trainer, hardware: Hardware) -> Iterator[None]:
    """Around a fit: a process that is not the first of its machine says its own error, and the first one ends
    those it has started, which may be waiting for it in a collective call.

    A launcher (torchrun, ``srun --kill-on-bad-exit``) does the second for processes it has started.
    """
    try:
        yield
    except Exception as error:
        # What all ranks find at the same step is said once, by the command.
        if hardware.local_rank and not isinstance(error, NonFiniteLossError):
            print(f"error on rank {hardware.rank}: {error}", file=sys.stderr, flush=True)
        _end(getattr(trainer.strategy.launcher, "procs", []))
        raise


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        if process.poll() is None:
            process.send_signal(
                getattr(signal, "SIGKILL", signal.SIGTERM)
            )  # none hears the other while it waits
