"""Where every rank is when it crashes or hangs: a file of Python stacks for each process."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from .launcher import global_rank

_open: list[TextIO] = []
"""Files in use; faulthandler writes to them for the rest of the process's life."""


def start_stack_log(folder: Path, environ: Mapping[str, str]) -> Path:
    """Write the stacks of all threads to ``folder/faulthandler_rank<R>_pid<P>.log`` when this process
    crashes, and when it gets SIGUSR2 (``kill -USR2 PID``, for one that hangs).

    Args:
        folder: ``AMT_FAULTHANDLER_LOG_DIR``; made when it is missing.
        environ: the launcher's variables, for the rank.

    Raises:
        ValueError: when the file cannot be made.
    """
    rank = global_rank(environ, devices=0)  # the number on its machine, where no launcher knows more
    path = folder / f"faulthandler_rank{rank}_pid{os.getpid()}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - stays open
    except OSError as error:
        raise ValueError(
            f"AMT_FAULTHANDLER_LOG_DIR: {path} cannot be made ({error.strerror or error})"
        ) from error
    _open.append(file)
    faulthandler.enable(file)
    if hasattr(signal, "SIGUSR2"):
        faulthandler.register(signal.SIGUSR2, file)
    return path
