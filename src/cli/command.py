"""What every command does around its work: errors as one sentence, exit codes, rank."""

from __future__ import annotations

import errno
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..training.launcher import SAID, global_rank, local_rank

EXIT_OK = 0
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

PATIENCE_SECONDS = 10.0
"""Time in which the first process of a machine tells of a mistake, and its launcher ends the others."""

_USERS_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)
_PACKAGE = Path(__file__).resolve().parents[1]


def run_command(work: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run ``work`` on ``argv`` (the program's own when None) and return the exit code.

    A user's mistake (a ``ValueError`` raised by this package, an error of a class of its own, or a missing
    file, a full disk) prints one sentence, as a rule once on each machine: a further process
    waits, and speaks only when it is not ended meanwhile. Any other error keeps its traceback, since it is
    ours.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    warnings.formatwarning = _one_line
    try:
        status = work(words)
        if sys.stdout is not None:  # closed by whoever started the program
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of a pipe (head, less) is gone
        _drop_output()
        return EXIT_ERROR
    except Exception as error:
        if not is_users_mistake(error):
            raise
        _drop_unwritten()
        if first_on_machine(os.environ):
            print(f"error: {error}", file=sys.stderr, flush=True)
        elif not getattr(error, SAID, False):
            time.sleep(PATIENCE_SECONDS)  # ended by then, where the first process has the same to say
            rank = global_rank(os.environ, devices=0)  # on its machine, where no launcher knows more
            print(f"error on rank {rank}: {error}", file=sys.stderr, flush=True)
        return EXIT_ERROR
    except KeyboardInterrupt as stop:
        who = "" if first_on_machine(os.environ) else f" on rank {global_rank(os.environ, devices=0)}"
        kept = f": {stop}" if stop.args else ""
        print(f"\ninterrupted{who}{kept}", file=sys.stderr, flush=True)  # below ^C and a bar that was cut
        return EXIT_INTERRUPTED


def _drop_unwritten() -> None:
    """Drop what standard output does not take, a full disk behind it, so that no second error follows."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Standard output leads nowhere from here on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as a sentence; where in the code it arose helps no user."""
    del category, filename, lineno, line
    return f"warning: {message}\n"


def is_users_mistake(error: BaseException) -> bool:
    """Whether one sentence says all there is to say about ``error``."""
    if isinstance(error, (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)):
        return True
    if isinstance(error, OSError) and error.errno in _USERS_ERRNOS:
        return True
    if type(error).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return True
    if not isinstance(error, ValueError) or error.__traceback__ is None:
        return False
    deepest = traceback.extract_tb(error.__traceback__)[-1].filename
    return _PACKAGE in Path(deepest).resolve().parents


def first_process(environ: Mapping[str, str]) -> bool:
    """Whether this process speaks for the run: the only one, or rank 0 of its launcher."""
    return global_rank(environ, devices=1) == 0


def first_on_machine(environ: Mapping[str, str]) -> bool:
    """Whether this process speaks of what may be wrong with its machine: a file can be missing on one."""
    return local_rank(environ) == 0


def warn(sentence: str) -> None:
    """Tell the user something on the error stream."""
    print(f"warning: {sentence}", file=sys.stderr, flush=True)
