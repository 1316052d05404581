"""What every command does around its work: errors as one sentence, exit codes, rank."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

EXIT_OK = 0
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

_PACKAGE = Path(__file__).resolve().parents[1]


def run_command(work: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run ``work`` on ``argv`` (the program's own when None) and return the exit code.

    A user's mistake (a ``ValueError`` raised by this package, an error of a class of its own, or a missing
    file) prints one sentence, once on each machine; any other error keeps its traceback, since it is ours.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    warnings.formatwarning = _one_line
    try:
        status = work(words)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of a pipe (head, less) is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except Exception as error:
        if not is_users_mistake(error):
            raise
        if first_on_machine(os.environ):
            print(f"error: {error}", file=sys.stderr, flush=True)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED


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
    if type(error).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return True
    if not isinstance(error, ValueError) or error.__traceback__ is None:
        return False
    deepest = traceback.extract_tb(error.__traceback__)[-1].filename
    return _PACKAGE in Path(deepest).resolve().parents


def first_process(environ: Mapping[str, str]) -> bool:
    """Whether this process speaks for the run: the only one, or rank 0 of its launcher."""
    for name in ("RANK", "SLURM_PROCID"):
        if environ.get(name, ""):
            return environ[name] == "0"
    return all(environ.get(name, "") in ("", "0") for name in ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK"))


def first_on_machine(environ: Mapping[str, str]) -> bool:
    """Whether this process speaks of what may be wrong with its machine: a file can be missing on one."""
    return all(environ.get(name, "") in ("", "0") for name in ("LOCAL_RANK", "SLURM_LOCALID"))


def warn(sentence: str) -> None:
    """Tell the user something on the error stream."""
    print(f"warning: {sentence}", file=sys.stderr, flush=True)
