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


def scan_shifts(
    reference: Notes,
    estimate: Notes,
    *,
    semitones: Iterable[int] = OCTAVES,
    seconds: Iterable[float] = TIMES,
    with_offset: bool = False,
    tolerances: Tolerances | None = None,
) -> list[ShiftScore]:
    """Score of all notes, whatever their programs, for every pair of a pitch shift and a time shift.

    Drum hits are compared with drum hits and pitched notes with pitched notes. No note is lost by moving it
    beyond the start or the range of MIDI pitches, so scores at different shifts compare.
    """
    ref, est = repair_notes(reference), repair_notes(estimate)
    times = list(seconds)
    if not np.isfinite(times).all():
        raise ValueError(f"a time shift must be a number of seconds, not one of {times}")
    scores = []
    for pitch in semitones:
        groups = _groups(ref, pitch), _groups(est, 0)
        for time in times:
            moved = ref.copy()
            moved["onset"] += time
            moved["offset"] += time
            pairs = pair_notes(moved, est, *groups, tolerances or Tolerances(), with_offset=with_offset)
            score = NoteScore(int((pairs >= 0).sum()), len(ref), len(est))
            scores.append(ShiftScore(pitch, time, score))
    return scores


class ShiftSums:
    """A scan over many files: the counts of each shift added up.

    Args:
        semitones, seconds: the shifts, as in :func:`scan_shifts`.
        tolerances: as there.
    """

    def __init__(
        self,
        semitones: Iterable[int] = (0,),
        seconds: Iterable[float] = (0.0,),
        tolerances: Tolerances | None = None,
    ) -> None:
        self._semitones, self._seconds = tuple(semitones), tuple(seconds)
        self._tolerances = tolerances
        self._sums: list[ShiftScore] = []

    def add(self, reference: Notes, estimate: Notes) -> None:
        """Scan one more file."""
        scores = scan_shifts(
            reference,
            estimate,
            semitones=self._semitones,
            seconds=self._seconds,
            tolerances=self._tolerances,
        )
        before = self._sums or [ShiftScore(s.semitones, s.seconds, NoteScore(0, 0, 0)) for s in scores]
        self._sums = [
            ShiftScore(old.semitones, old.seconds, old.score + new.score)
            for old, new in zip(before, scores, strict=True)
        ]

    def scores(self) -> list[ShiftScore]:
        """Each shift with the counts of all files; empty before the first."""
        return list(self._sums)


def best_shift(scores: Iterable[ShiftScore]) -> ShiftScore:
    """The shift of a scan that matches most notes; of equal ones the smallest, pitch before time."""
    scanned = list(scores)
    if not scanned:
        raise ValueError("a scan needs at least one pitch shift and one time shift")
    return min(scanned, key=lambda s: (-s.score.num_matched, abs(s.semitones), abs(s.seconds)))


def _groups(notes: NoteArray, semitones: int) -> IntArray:
    return np.where(notes["is_drum"], _DRUM_GROUP + pitches(notes), pitches(notes) + semitones)
