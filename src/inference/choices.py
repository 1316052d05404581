"""What the user decides about decoding, beyond what the checkpoint says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..config.names import counted
from ..tokenizer import NoteTokenizer

NO_SUBTASK = "none"
"""Name that asks for sequences without task tokens, for networks that were trained without them."""


@dataclass(frozen=True)
class DecodingChoices:
    """How songs are decoded; the command line of ``predict.py`` fills it."""

    batch_size: int | None = None
    """Windows decoded together; None takes the checkpoint's."""
    overlap: float | None = None
    """Share of a window that the next one hears again; None takes the checkpoint's."""
    subtask: str | None = None
    """What to transcribe in a task that has sub-tasks, see :func:`chosen_subtask`."""
    constrain: bool = False
    """Write only sequences that the tokenizer could have written, see :mod:`.grammar`."""
    instruments: tuple[str, ...] = ()
    """Write only these, names of the task's classes, ``drums`` or program numbers; implies ``constrain``.
    Empty: all."""
    start_from_ties: bool = False
    """A note said to sound on from before its window, but missing there, starts at the window; else it is
    left out."""
    precision: str = "auto"
    """Numbers of the decoder's matrices: ``32``, ``bf16``, ``int8`` (CPU only), or ``auto``: bf16 on a GPU
    and 32 on a CPU."""

    min_note_ms: float = 0.0
    """Pitched notes shorter than this are left out; drums have no length and stay."""

    @property
    def constrained(self) -> bool:
        """Whether only well-formed sequences are written."""
        return self.constrain or bool(self.instruments)

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"--batch-size must be at least 1, is {self.batch_size}")
        if not 0 <= self.min_note_ms < math.inf:
            raise ValueError(f"--min-note-ms must be 0 or more milliseconds, is {self.min_note_ms}")


DEFAULT_CHOICES = DecodingChoices()


def left_out_text(count: int, total: int = 0, *, constrained: bool = True) -> str:
    """That tokens of a song made no note, in words; "" for none.

    Args:
        count: how many.
        total: of how many; 0 where that is not known.
        constrained: whether ``--constrain`` held already; else it is the way out.
    """
    if not count:
        return ""
    what = f"{count:,} of {counted(total, 'token')}" if total else counted(count, "token")
    hint = "" if constrained else " (--constrain avoids most of that)"
    return f"{what} made no note and {'was' if count == 1 else 'were'} left out{hint}"


def chosen_subtask(tokenizer: NoteTokenizer, name: str | None) -> str | None:
    """The sub-task that is forced at the start of every sequence: ``name``, or the task's first for None.

    ``none`` forces nothing: networks of other people, trained on sequences without task tokens, need that.
    Raises ``ValueError`` for a name the task does not have.
    """
    if name is None:
        return tokenizer.task.default_subtask
    if name == NO_SUBTASK:
        return None
    if not tokenizer.prefixes:
        raise ValueError(f"the task {tokenizer.task.name} has no sub-tasks; leave --subtask out")
    tokenizer.task.subtask(name)
    return name
