"""Putting note lists in order: sorting, repairing lengths, ending overlaps. Arrays of ``NOTE_DTYPE``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .note import NoteArray

MINIMUM_SECONDS = 0.01
"""Shortest length of a pitched note, and the length every drum note is given on reading."""


def note_identity(notes: NoteArray, programs: npt.NDArray[np.integer] | None = None) -> npt.NDArray[np.int64]:
    """One integer per note that is equal for notes of the same drum flag, program and pitch.

    It sorts in that order. ``programs`` replaces the notes' own programs.
    """
    own = notes["program"] if programs is None else programs
    identity: npt.NDArray[np.int64] = notes["is_drum"].astype(np.int64) << 32
    identity += own.astype(np.int64) << 16
    identity += notes["pitch"]
    return identity


def _order(notes: NoteArray, by_offset: bool) -> npt.NDArray[np.intp]:
    velocity_on = (notes["velocity"] > 0).astype(np.int64)
    rank = (note_identity(notes) >> 16 << 17) | (velocity_on << 16) | notes["pitch"].astype(np.int64)
    keys = (rank, notes["onset"])
    return np.lexsort((notes["offset"], *keys) if by_offset else keys)


def sort_notes(notes: NoteArray) -> NoteArray:
    """A copy sorted by onset, drum flag, program, velocity on or off, pitch and offset."""
    return notes[_order(notes, by_offset=True)]


def validate_notes(notes: NoteArray) -> NoteArray:
    """A copy with usable lengths.

    Notes with a time that is not finite are dropped. A note that does not end after it starts, and a pitched
    note shorter than 10 ms, gets 10 ms. Other drum notes keep their length.
    """
    finite = np.isfinite(notes["onset"]) & np.isfinite(notes["offset"])
    valid = notes[finite] if not finite.all() else notes.copy()
    onset, offset = valid["onset"], valid["offset"]
    short = (onset >= offset) | (~valid["is_drum"] & (offset - onset < MINIMUM_SECONDS))
    if short.any():
        valid["offset"] = np.where(short, onset + MINIMUM_SECONDS, offset)
    return valid


def trim_overlaps(notes: NoteArray, programs: npt.NDArray[np.integer] | None = None) -> NoteArray:
    """A copy in which a note ends where the next one of its pitch, program and drum flag starts.

    One pass from left to right, so a nested note ends its parent; of notes with one onset the last in
    the list stays. ``programs`` (M,) replaces the notes' programs in that comparison. Notes without
    length are dropped. Sorted by onset, drum flag, program, velocity and pitch.
    """
    identity = note_identity(notes, programs)
    order = np.lexsort((notes["onset"], identity))
    trimmed = notes[order]
    same = identity[order]
    onset, offset = trimmed["onset"], trimmed["offset"]
    overlap = (same[1:] == same[:-1]) & (offset[:-1] > onset[1:])
    if overlap.any():
        where = np.flatnonzero(overlap)
        offset[where] = onset[where + 1]
    keep = onset < offset
    if not keep.all():
        trimmed = trimmed[keep]
    return trimmed[_order(trimmed, by_offset=False)]


def clean_notes(notes: NoteArray, programs: npt.NDArray[np.integer] | None = None) -> NoteArray:
    """Notes that tokens, MIDI and metrics can hold: finite, of positive length, without overlaps.

    Repairs lengths first, so that a note of no length survives with 10 ms, then ends overlaps
    (see :func:`validate_notes` and :func:`trim_overlaps`). The result is sorted. Cleaning twice
    changes nothing more.
    """
    if programs is not None:
        finite = np.isfinite(notes["onset"]) & np.isfinite(notes["offset"])
        notes, programs = notes[finite], programs[finite]
    valid = validate_notes(notes)
    order = _order(valid, by_offset=True)
    return trim_overlaps(valid[order], None if programs is None else programs[order])
