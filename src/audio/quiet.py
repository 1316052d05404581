"""Keeping the remarks of a C library off standard error, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator

_STDERR = 2
_REMARK = re.compile(rb"(?m)^\n?(?:Note: |Warning: |\[[^\]\n]*libmpg123[^\]\n]*\] )[^\n]*(?:\n|\Z)")
"""A line of libmpg123, which libsndfile decodes MP3 with: it has no switch for them."""
_LOCK = threading.RLock()
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@contextlib.contextmanager
def quiet_decoder() -> Iterator[None]:
    """Leave out what libmpg123 writes to standard error meanwhile.

    File descriptor 2 leads into a temporary file, whose other lines are written afterwards: those of Python
    and of other threads come late, but they come. One thread at a time; ``os.fork`` waits, so that no child
    keeps that file. Hold it for a call of the library, not for a whole song. Without a standard error or a
    place for temporary files nothing is changed.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        try:
            caught = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            real = os.dup(_STDERR)
        except OSError:
            yield
            return
        try:
            os.dup2(caught.fileno(), _STDERR)
            yield
        finally:
            os.dup2(real, _STDERR)
            caught.seek(0)
            others = _REMARK.sub(b"", caught.read())
            with contextlib.suppress(OSError):  # whoever read it is gone
                while others:
                    others = others[os.write(real, others) :]
            os.close(real)
