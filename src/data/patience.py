"""Reading again where a file system stumbles: one bad second of a server must not end a run of days."""

from __future__ import annotations

import errno
import time
import warnings
from collections.abc import Callable
from typing import TypeVar

from .store_format import StoreError

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


def read_patiently(read: Callable[[], Found]) -> Found:
    """What ``read`` gives. An error of the file system that may pass is waited for, with a warning each time.

    Args:
        read: reads all it needs anew each time it is called.

    Raises:
        StoreError: it did not pass; any other error of ``read`` comes as it is.
    """
    for pause in (*PAUSES, None):
        try:
            return read()
        except OSError as error:
            if error.errno not in PASSING:
                raise
            what = f"{error.filename or 'the data'}: cannot be read ({error.strerror or error})"
            if pause is None:
                raise StoreError(
                    f"{what}, nor {len(PAUSES)} tries later; see to the disk, or the server it is on, and "
                    "start again"
                ) from None
        warnings.warn(f"{what}; tried again in {pause:g} s", stacklevel=2)
        time.sleep(pause)
    raise AssertionError("the last try returns or raises")
