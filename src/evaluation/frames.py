"""Frame scores: which pitches sound when, whatever note they belong to."""

from __future__ import annotations

import numpy as np

from ..notes.note import NoteArray
from .counts import NoteScore
from .intervals import Runs, shared_cells, touched_frames

FRAME_HOP = 0.0625
"""Seconds per frame of the frame scores (published YourMT3 and MT3 evaluation)."""


def frame_counts(
    reference: NoteArray, estimate: NoteArray, *, hop: float = FRAME_HOP
) -> tuple[NoteScore, NoteScore]:
    """Counts of piano-roll cells: by pitch, and by pitch class.

    Both rolls share one time grid that reaches to the end of the later one. By pitch, a cell is on when any
    note of that pitch touches it. By pitch class, the pitches of a frame are matched one to one with
    octaves ignored, so two reference pitches an octave apart need two estimated ones. Both are the counts
    of ``mir_eval.multipitch`` (Bay et al. 2009).

    Args:
        reference, estimate: note arrays of :func:`~.repair.repair_notes`; programs and drum flags
            are ignored.
        hop: seconds per frame.
    """
    ref, est = _runs(reference, hop), _runs(estimate, hop)
    total = ref.num_cells, est.num_cells
    by_pitch = NoteScore(shared_cells(ref, est), *total)
    by_class = NoteScore(shared_cells(_octave_free(ref), _octave_free(est)), *total)
    return by_pitch, by_class


def _runs(notes: NoteArray, hop: float) -> Runs:
    return touched_frames(notes["pitch"].astype(np.int64), notes["onset"], notes["offset"], hop)


def _octave_free(runs: Runs) -> Runs:
    return Runs(runs.group % 12, runs.first, runs.stop)
