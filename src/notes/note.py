"""A note, and arrays of notes: the form in which the whole project stores and passes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

NOTE_DTYPE = np.dtype(
    [
        ("onset", "<f8"),
        ("offset", "<f8"),
        ("pitch", "<i2"),
        ("program", "<i2"),
        ("velocity", "<i2"),
        ("is_drum", "?"),
    ]
)
"""One row per note: seconds, seconds, MIDI pitch, MIDI program, MIDI velocity, drum flag."""

NoteArray = npt.NDArray[np.void]
"""A one-dimensional array of ``NOTE_DTYPE``."""

DRUM_PROGRAM = 128
"""Program of drum notes wherever programs are compared."""
SINGING_PROGRAM = 100
"""Program of a lead singing voice."""
CHORUS_PROGRAM = 101
"""Program of backing voices."""


class Note(NamedTuple):
    """One note. Times in seconds from the start of the piece."""

    onset: float
    offset: float
    pitch: int
    program: int = 0
    is_drum: bool = False
    velocity: int = 1


def notes_to_array(notes: Iterable[Note] | NoteArray) -> NoteArray:
    """Notes as a structured array of ``NOTE_DTYPE``; an array passes through unchanged."""
    if isinstance(notes, np.ndarray):
        if notes.dtype != NOTE_DTYPE:
            raise ValueError(f"a note array needs dtype NOTE_DTYPE, not {notes.dtype}")
        return notes
    rows = [(n.onset, n.offset, n.pitch, n.program, n.velocity, n.is_drum) for n in notes]
    return np.array(rows, dtype=NOTE_DTYPE)


def note_programs(array: NoteArray) -> npt.NDArray[np.int16]:
    """Program of each note (M,), 128 for drums."""
    programs: npt.NDArray[np.int16] = np.where(array["is_drum"], np.int16(DRUM_PROGRAM), array["program"])
    return programs


def array_to_notes(array: NoteArray) -> list[Note]:
    """The rows of a note array as :class:`Note` tuples of plain Python numbers."""
    return [
        Note(onset, offset, pitch, program, is_drum, velocity)
        for onset, offset, pitch, program, velocity, is_drum in array.tolist()
    ]
