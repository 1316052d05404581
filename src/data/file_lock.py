"""One process at a time in a folder that is being written."""

from __future__ import annotations

import errno
import fcntl
from typing import IO


def take_lock(file: int | IO[bytes], refusal: str) -> None:
    """Hold an open file for this process until it is closed; the system lets go of it when the process dies.

    On a file system without locks nobody is held back.

    Raises:
        ValueError: ``refusal``, when another process holds it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise ValueError(refusal) from None
