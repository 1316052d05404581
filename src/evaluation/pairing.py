"""Note scores of two sets of notes: which notes agree, and how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..notes.note import NoteArray
from .counts import NoteScore
from .matching import OFFSET_MIN_TOLERANCE, OFFSET_RATIO, ONSET_TOLERANCE, IntArray, match_notes
from .repair import Notes, repair_notes


@dataclass(frozen=True)
class Tolerances:
    """How far two notes that agree may be apart."""

    onset: float = ONSET_TOLERANCE
    """Seconds."""
    offset_ratio: float = OFFSET_RATIO
    """Share of the reference note's length."""
    offset_min: float = OFFSET_MIN_TOLERANCE
    """Seconds allowed for the offset of short notes."""

    def __post_init__(self) -> None:
        for name in ("onset", "offset_ratio", "offset_min"):
            value = getattr(self, name)
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"the {name} tolerance must be a number of 0 or more, not {value}")


def note_prf(
    reference: Notes,
    estimate: Notes,
    *,
    with_offset: bool = False,
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
) -> NoteScore:
    """Counts, precision, recall and F-measure of two sets of notes, whatever their programs.

    Drum flags are ignored: pass what should be compared. Pitches must be equal, onsets within
    ``onset_tolerance`` seconds and, with ``with_offset``, offsets within
    ``max(offset_min_tolerance, offset_ratio * reference length)``.
    """
    ref, est = repair_notes(reference), repair_notes(estimate)
    tolerances = Tolerances(onset_tolerance, offset_ratio, offset_min_tolerance)
    matched = pair_notes(ref, est, pitches(ref), pitches(est), tolerances, with_offset=with_offset)
    return NoteScore(int((matched >= 0).sum()), len(ref), len(est))


def pitches(notes: NoteArray) -> IntArray:
    """Pitches as int64, wide enough to build group numbers from."""
    pitch: IntArray = notes["pitch"].astype(np.int64)
    return pitch


def pair_notes(
    ref: NoteArray,
    est: NoteArray,
    ref_group: IntArray,
    est_group: IntArray,
    tolerances: Tolerances,
    *,
    with_offset: bool,
) -> IntArray:
    """:func:`~.matching.match_notes` of note arrays: for each reference note the estimated one, or -1."""
    return match_notes(
        ref_group,
        np.ascontiguousarray(ref["onset"]),
        np.ascontiguousarray(ref["offset"]),
        est_group,
        np.ascontiguousarray(est["onset"]),
        np.ascontiguousarray(est["offset"]),
        onset_tolerance=tolerances.onset,
        offset_ratio=tolerances.offset_ratio if with_offset else None,
        offset_min_tolerance=tolerances.offset_min,
    )
