"""An error in one process ends all of them, and is heard: with its rank, and with the way out."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytorch_lightning as pl
import torch.distributed as dist
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver

from .handover import VARIABLE, port_problem
from .launcher import SAID, by_torchrun
from .signals import SIGNALS
from .trainer import Hardware

GRACE_SECONDS = 10.0
"""Time that processes of this machine have to say what is wrong with them before they are ended."""
LEAVE_SECONDS = 120.0
"""Time to leave after an error; W&B may send its last numbers meanwhile."""
POLL_SECONDS = 0.5
WAY_OUT = "Started again, the run goes on from its last checkpoint"

Child = subprocess.Popen[bytes]


class RankLost(RuntimeError):
    """Another process of the run has ended, or does not answer."""


@contextlib.contextmanager
def errors_end_all(trainer: pl.Trainer, hardware: Hardware) -> Iterator[None]:
    """Around a fit: a process that is not the first of its machine says its own error, and the first one ends
    those it has started, which may be waiting for it in a collective call.

    A launcher (torchrun, ``srun --kill-on-bad-exit``) does the second for processes it has started.

    Raises:
        RankLost: in place of what a collective call says when another process is gone.
    """
    launcher = trainer.strategy.launcher
    has_starter = by_torchrun(os.environ) or VARIABLE in os.environ
    watch = Watch(lambda: getattr(launcher, "procs", []), hardware, os.getppid() if has_starter else None)
    watch.start()
    try:
        yield
    except Exception as error:
        watch.dismiss()  # what happens to the others now is this error's doing
        if hardware.world_size > 1:
            _end_at_last()
        fates = watch.end_children()
        if is_lost_contact(error):
            said = port_problem(error) or describe_loss(hardware.rank, fates, _first_line(error))
            error, cause = RankLost(said), error
            error.__cause__ = cause
        if hardware.local_rank and not getattr(error, SAID, False):
            print(f"error on rank {hardware.rank}: {error}", file=sys.stderr, flush=True)
            setattr(error, SAID, True)
        raise error
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning makes an exit without a word of it
            raise KeyboardInterrupt from None
        raise
    finally:
        watch.dismiss()


class Watch(threading.Thread):
    """Waits beside the fit for a process that this one has started, or the one that has started it, to end
    before its time. When this one then does not end by itself (it may hang in a collective call for ever) it
    is ended, with all that it has started.

    It takes the place of Lightning's own observer, which kills this process without a word, also while it is
    saying its error.

    Args:
        children: gives the processes of this machine from its second on; none before the fit begins.
        hardware: of this process.
        starter: the process that has started this one and lives as long; None of one that a user starts.
    """

    def __init__(
        self, children: Callable[[], Sequence[Child]], hardware: Hardware, starter: int | None = None
    ) -> None:
        super().__init__(daemon=True, name="rank-watch")
        self._children = children
        self._hardware = hardware
        self._starter = starter
        self._dismissed = threading.Event()

    def dismiss(self) -> None:
        """The fit is over, or its error is known."""
        self._dismissed.set()

    def run(self) -> None:
        """See the class."""
        while not self._dismissed.wait(POLL_SECONDS):
            if children := self._children():
                _send_lightning_s_observer_away()
            if self._is_orphan() or any(_failed(child.poll()) for child in children):
                break
        if self._dismissed.wait(GRACE_SECONDS):
            return
        said = "the process that started it is gone" if self._is_orphan() else ""
        message = describe_loss(self._hardware.rank, self.end_children(), said)
        print(f"error: {message}", file=sys.stderr, flush=True)
        os._exit(1)

    def _is_orphan(self) -> bool:
        return self._starter is not None and os.getppid() != self._starter

    def end_children(self) -> dict[int, int]:
        """Wait a little for the children to end, kill those that do not (none hears a signal while it waits
        in a collective call).

        Returns:
            Ranks that ended by themselves and not well: exit status, or minus the number of a signal.
        """
        fates: dict[int, int] = {}
        deadline = time.monotonic() + GRACE_SECONDS
        for place, child in enumerate(self._children()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.wait(max(0.0, deadline - time.monotonic()))
                if _failed(status):
                    fates[self._hardware.rank + 1 + place] = status
            if child.poll() is None:
                child.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        return fates


def _failed(status: int | None) -> bool:
    """Whether a process has ended and not well. After a signal all save, and end with its status, while the
    first process may still be busy with the end."""
    return status not in (None, 0, *(128 + number for number in SIGNALS))


def is_lost_contact(error: BaseException) -> bool:
    """Whether a collective call failed: NCCL and the store have classes of errors, gloo names its source."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "/gloo/" in str(error))


def describe_loss(rank: int, fates: dict[int, int], said: str) -> str:
    """What ``rank`` knows of the others that are gone.

    Args:
        rank: of this process.
        fates: of :meth:`Watch.end_children`; others are on other machines or of another launcher.
        said: by the library; left out where the fates say more.
    """
    killed = {other: -status for other, status in fates.items() if status < 0}
    if killed:  # those that were not have only lost contact, as this one
        names = ", ".join(f"rank {other} ({_signal_name(number)})" for other, number in killed.items())
        what = f"killed from outside: {names}"
        if signal.SIGKILL in killed.values():
            what += ". The system does that when memory runs out: see dmesg, lower -bsz or --num-workers"
    elif fates:
        names = ", ".join(f"rank {other} (status {status})" for other, status in fates.items())
        what = f"ended: {names}; what they said stands above"
    else:
        what = (
            "one has ended or does not answer; what it said stands above, or in the log of its machine. One "
            f"that said nothing was killed, often for want of memory ({said})"
        )
    return f"rank {rank} lost the other ranks, {what}. {WAY_OUT}"


def _end_at_last() -> None:
    """After an error: leaving may hang too, where a library waits for its part of a collective call."""
    timer = threading.Timer(LEAVE_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return re.sub(r"^\[/\S*\] ", "", lines[0])[:200]  # gloo begins with a place in its source


def _send_lightning_s_observer_away() -> None:
    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            thread._child_processes = []  # it finds that nobody is left, and ends
