"""Melody scores: the pitch that is sung at each instant of a true time grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..notes.note import CHORUS_PROGRAM, SINGING_PROGRAM, NoteArray
from .counts import MelodyScore
from .intervals import frame_position
from .matching import FloatArray, IntArray

MELODY_HOP = 0.01
"""Seconds between the instants of the melody scores."""
SILENT = -1
"""Pitch of an instant without a note."""


def melody_classes(vocab: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """The classes of a vocabulary that are lead voices: with the singing program and nothing but voices."""
    voices = {SINGING_PROGRAM, CHORUS_PROGRAM}
    return tuple(
        name
        for name, programs in vocab.items()
        if SINGING_PROGRAM in programs and voices.issuperset(programs)
    )


def melody_counts(
    reference: NoteArray, estimate: NoteArray, *, hop: float = MELODY_HOP, duration: float | None = None
) -> MelodyScore:
    """Counts behind raw pitch, raw chroma and overall accuracy, voicing recall and false alarm.

    Instant ``k`` is at ``k * hop`` seconds, from 0. A note sounds from its onset up to, not at, its offset;
    where several sound, the one that began last is the melody, of equal onsets the highest. A note that
    falls between two instants is not heard. Between notes the melody is silent.

    Args:
        reference, estimate: note arrays of :func:`~.repair.repair_notes`; programs and drum flags
            are ignored.
        hop: seconds.
        duration: seconds of audio, which fixes the number of instants; by default, and where notes last
            longer, the grid reaches to the end of the last note of either side.
    """
    ref_first, ref_stop = _instants(reference, hop)
    est_first, est_stop = _instants(estimate, hop)
    length = np.zeros(1, dtype=np.int64)
    if duration is not None:
        length = np.ceil(frame_position(np.array([duration]), hop)).astype(np.int64)
    # Nothing changes between two of these instants, so one entry stands for all up to the next.
    edges = np.unique(np.concatenate([[0], length, ref_first, ref_stop, est_first, est_stop]))
    width = np.diff(edges)
    ref = _paint(reference["pitch"], reference["onset"], ref_first, ref_stop, edges)
    est = _paint(estimate["pitch"], estimate["onset"], est_first, est_stop, edges)
    voiced, estimated = ref != SILENT, est != SILENT
    both = voiced & estimated
    masks = (
        np.ones_like(both),
        voiced,
        estimated,
        both,
        both & (ref == est),
        both & ((ref - est) % 12 == 0),
    )
    return MelodyScore(*(int(width[mask].sum()) for mask in masks))


def _instants(notes: NoteArray, hop: float) -> tuple[IntArray, IntArray]:
    """First instant at or after the onset, first at or after the offset."""
    first, stop = (np.ceil(frame_position(notes[end], hop)).astype(np.int64) for end in ("onset", "offset"))
    return first, stop


def _paint(pitch: IntArray, onset: FloatArray, first: IntArray, stop: IntArray, edges: IntArray) -> IntArray:
    """Pitch of the melody in each span between two edges."""
    melody = np.full(len(edges) - 1, SILENT, dtype=np.int64)
    order = np.lexsort((pitch, onset))
    begin = np.searchsorted(edges, first[order])
    count = np.searchsorted(edges, stop[order]) - begin
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    # Assignment goes from left to right, so a note that began later paints over an earlier one.
    melody[np.repeat(begin, count) + within] = np.repeat(pitch[order], count)
    return melody
