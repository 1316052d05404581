"""What Ctrl-C leaves of a run, in words.

Standard library only, so that it holds from the first line of ``train.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

BEFORE_TRAINING = "nothing is trained yet and no checkpoint has changed; the same command starts again"
"""What is left of a run that ends before its first step."""


def what_is_kept(saved_step: int | None) -> str:
    """What is left of a run that ends at this moment, and how it goes on.

    Args:
        saved_step: step of the state that was saved last; None when none was.
    """
    if saved_step is None:
        return "nothing has been saved; the same command starts again"
    return f"the state of step {saved_step} is saved; the same command goes on from there"


@contextlib.contextmanager
def interrupts_say(kept: Callable[[], str]) -> Iterator[None]:
    """A ``KeyboardInterrupt`` that says nothing leaves here with the words of ``kept``."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(*(stop.args or (kept(),))) from None
