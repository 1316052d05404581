"""How many loader processes there are, and whether the machine can feed them. Imports nothing heavy."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from ..config.names import counted

SHARED_MEMORY = Path("/dev/shm")


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cap_workers(
    num_workers: int, processes_per_node: int, *, explicit: bool, cores: int | None = None
) -> tuple[int, str | None]:
    """Loader processes of each rank, and a warning if there is something to say.

    Args:
        num_workers: wanted for each rank.
        processes_per_node: ranks on this machine.
        explicit: the user set the number; it is then kept and only warned about.
        cores: of the machine; None looks.
    """
    cores = available_cores() if cores is None else cores
    total = num_workers * processes_per_node
    if total <= cores:
        return num_workers, None
    ranks = (
        f"{counted(processes_per_node, 'process', 'processes')} x {counted(num_workers, 'worker')}"
        if processes_per_node > 1
        else counted(num_workers, "worker")
    )
    if explicit:
        return num_workers, f"{ranks} share {cores} cores; --num-workers was set, so it stays"
    capped = max(1, cores // processes_per_node) if num_workers else 0
    return (
        capped,
        f"{ranks} are more than {cores} cores; {capped} per process are used (--num-workers overrides)",
    )


def worker_context() -> str:
    """How loader processes are started: ``fork`` on Linux, where it is cheap and loaders use no CUDA."""
    return "fork" if sys.platform == "linux" else "spawn"


def leave_signals_to_the_run(worker: int) -> None:
    """For a loader process: a signal to the whole process group (a launcher, ``timeout``, Ctrl-C) must not
    end it, or the run would die of a missing loader before it has saved. It ends with the run."""
    del worker
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def shared_memory_problem(num_workers: int, prefetch_factor: int, batch_bytes: int) -> str | None:
    """A warning when ``/dev/shm`` cannot hold the batches that are made ahead; None when it can."""
    if num_workers == 0 or not SHARED_MEMORY.is_dir():
        return None
    needed = num_workers * prefetch_factor * batch_bytes
    free = shutil.disk_usage(SHARED_MEMORY).free
    if needed <= free:
        return None
    return (
        f"{SHARED_MEMORY} has {free >> 20} MiB left, {counted(num_workers, 'worker')} x "
        f"{counted(prefetch_factor, 'batch', 'batches')} ahead "
        f"need {needed >> 20} MiB; loaders would die of a bus error. Lower --num-workers or "
        "AMT_PREFETCH_FACTOR, or give the container more shared memory (docker run --shm-size=8g)"
    )


def raise_file_limit(wanted: int) -> None:
    """Allow this process ``wanted`` open files, as far as the system lets it; batches arrive as files."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
