"""Label shift: would the labels fit better if they were moved in time, or by octaves?

Labels of a data set may be late by a constant, or written an octave too low; then a good transcription
scores badly. The scan shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..notes.note import NoteArray
from .counts import NoteScore
from .matching import IntArray
from .pairing import Tolerances, pair_notes, pitches
from .repair import Notes, repair_notes

OCTAVES = (-12, 0, 12)
"""Semitones of the default scan."""
TIMES = tuple(step / 100 for step in range(-10, 11))
"""Seconds of the default scan."""
_DRUM_GROUP = 1 << 20


@dataclass(frozen=True)
class ShiftScore:
    """The score with the reference moved."""

    semitones: int
    """Added to the pitches of the reference; drums keep theirs."""
    seconds: float
    """Added to the times of the reference."""
    score: NoteScore


def score_at_shift(
    reference: Notes,
    estimate: Notes,
    *,
    semitones: int = 0,
    seconds: float = 0.0,
    with_offset: bool = False,
    tolerances: Tolerances | None = None,
) -> NoteScore:
    """Score of all notes, whatever their programs, with the reference moved.

    Drum hits are compared with drum hits and pitched notes with pitched notes. No note is lost by moving it
    beyond the start or the range of MIDI pitches, so scores at different shifts compare.
    """
    ref, est = repair_notes(reference), repair_notes(estimate)
    return _score(ref, est, semitones, seconds, with_offset, tolerances or Tolerances())


def scan_shifts(
    reference: Notes,
    estimate: Notes,
    *,
    semitones: Iterable[int] = OCTAVES,
    seconds: Iterable[float] = TIMES,
    with_offset: bool = False,
    tolerances: Tolerances | None = None,
) -> list[ShiftScore]:
    """:func:`score_at_shift` for every pair of a pitch shift and a time shift."""
    ref, est = repair_notes(reference), repair_notes(estimate)
    times = list(seconds)
    return [
        ShiftScore(pitch, time, _score(ref, est, pitch, time, with_offset, tolerances or Tolerances()))
        for pitch in semitones
        for time in times
    ]


def best_shift(
    reference: Notes,
    estimate: Notes,
    *,
    semitones: Iterable[int] = OCTAVES,
    seconds: Iterable[float] = TIMES,
    with_offset: bool = False,
    tolerances: Tolerances | None = None,
) -> ShiftScore:
    """The shift of the reference that matches most notes; of equal ones the smallest, pitch before time."""
    scanned = scan_shifts(
        reference,
        estimate,
        semitones=semitones,
        seconds=seconds,
        with_offset=with_offset,
        tolerances=tolerances,
    )
    if not scanned:
        raise ValueError("a scan needs at least one pitch shift and one time shift")
    return min(scanned, key=lambda s: (-s.score.num_matched, abs(s.semitones), abs(s.seconds)))


def _score(
    ref: NoteArray,
    est: NoteArray,
    semitones: int,
    seconds: float,
    with_offset: bool,
    tolerances: Tolerances,
) -> NoteScore:
    if not np.isfinite(seconds):
        raise ValueError(f"a time shift must be a number of seconds, not {seconds}")
    moved = ref.copy()
    moved["onset"] += seconds
    moved["offset"] += seconds
    groups = _groups(ref, semitones), _groups(est, 0)
    matched = pair_notes(moved, est, *groups, tolerances, with_offset=with_offset)
    return NoteScore(int((matched >= 0).sum()), len(ref), len(est))


def _groups(notes: NoteArray, semitones: int) -> IntArray:
    return np.where(notes["is_drum"], _DRUM_GROUP + pitches(notes), pitches(notes) + semitones)
