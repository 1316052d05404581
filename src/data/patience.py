"""Reading again where a file system stumbles: one bad second of a server must not end a run of days."""

from __future__ import annotations

import errno
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

PAUSES = (1.0, 5.0, 20.0, 60.0)
"""Seconds before each further try."""
PASSING = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
    }
)
"""Errors that may be over after a while, as those of file systems of other machines are."""


class UnreadableFile(OSError, ValueError):
    """A file that the disk, or the server it is on, does not give; ``errno``, ``strerror`` and ``filename``
    are those of an ``OSError``. What it holds may be good."""

    def __str__(self) -> str:
        if self.filename is None:  # made again from its words, in another process
            return super().__str__()
        return f"{self.filename}: cannot be read ({self.strerror})"


def unreadable(error: OSError, path: Path) -> UnreadableFile:
    """An error of the file system on the way to ``path``."""
    return UnreadableFile(error.errno, error.strerror or str(error), str(path))


def read_patiently(read: Callable[[], Found]) -> Found:
    """What ``read`` gives. An error of the file system that may pass is waited for, with a warning each time.

    Args:
        read: reads all it needs anew each time it is called.

    Raises:
        ValueError: it did not pass; any other error of ``read`` comes as it is.
    """
    for pause in PAUSES:
        try:
            return read()
        except UnreadableFile as error:
            if error.errno not in PASSING:
                raise
            warnings.warn(f"{error}; tried again in {pause:g} s", stacklevel=2)
        time.sleep(pause)
    try:
        return read()
    except UnreadableFile as error:
        raise ValueError(
            f"{error}, nor {len(PAUSES)} tries earlier; see to the disk, or the server it is on, and start "
            "again"
        ) from None
