"""Which estimated notes are which reference notes: maximum bipartite matching, as mir_eval counts.

Two notes can be matched when their onsets are within a tolerance, their pitches are equal and, where
asked, their offsets are within a tolerance that grows with the reference note. Distances in time are
rounded to four decimals and a distance equal to the tolerance counts (mir_eval 0.8, Raffel et al. 2014).
Pitches here are MIDI numbers, so "within 50 cents" is equality.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

ONSET_TOLERANCE = 0.05
"""Largest distance of two matched onsets in seconds."""
OFFSET_MIN_TOLERANCE = 0.05
"""Largest distance of two matched offsets of short notes in seconds."""
OFFSET_RATIO = 0.2
"""Share of the reference note's length that its offset may be off, where that is more."""
_DECIMALS = 4
_MARGIN = 1e-3


def match_notes(
    ref_group: IntArray,
    ref_onset: FloatArray,
    ref_offset: FloatArray,
    est_group: IntArray,
    est_onset: FloatArray,
    est_offset: FloatArray,
    *,
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float | None = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
) -> IntArray:
    """A largest set of pairs of a reference and an estimated note that agree.

    Args:
        ref_group: ``(R,)`` integers; only notes of equal group can be matched (a pitch, or a pitch and a
            class in one number).
        ref_onset, ref_offset: ``(R,)`` seconds, finite.
        est_group, est_onset, est_offset: the same of the estimate, ``(E,)``.
        onset_tolerance: seconds.
        offset_ratio: ``None`` ignores offsets; else offsets must be within
            ``max(offset_min_tolerance, offset_ratio * reference length)``.

    Returns:
        ``(R,)`` the index of the estimated note matched to each reference note, or -1.
    """
    ref, est = _near_onsets(ref_group, ref_onset, est_group, est_onset, onset_tolerance)
    if offset_ratio is not None and ref.size:
        tolerance = np.maximum(offset_ratio * (ref_offset - ref_onset), offset_min_tolerance)[ref]
        keep = np.around(np.abs(ref_offset[ref] - est_offset[est]), _DECIMALS) <= tolerance
        ref, est = ref[keep], est[keep]
    return _largest_matching(ref, est, len(ref_onset), len(est_onset))


def _near_onsets(
    ref_group: IntArray, ref_onset: FloatArray, est_group: IntArray, est_onset: FloatArray, tolerance: float
) -> tuple[IntArray, IntArray]:
    """All pairs (reference index, estimate index) of equal group and near onsets."""
    nothing = np.zeros(0, dtype=np.int64)
    if not len(ref_onset) or not len(est_onset):
        return nothing, nothing
    _, group = np.unique(np.concatenate([ref_group, est_group]), return_inverse=True)
    onset = np.concatenate([ref_onset, est_onset])
    reach = tolerance + _MARGIN
    # One sorted axis for all groups; the margin covers the rounding of these long numbers.
    key = group * (np.ptp(onset) + 4.0 * reach) + (onset - onset.min())
    ref_key, est_key = key[: len(ref_onset)], key[len(ref_onset) :]
    order = np.argsort(est_key, kind="stable")
    first = np.searchsorted(est_key[order], ref_key - reach, side="left")
    count = np.searchsorted(est_key[order], ref_key + reach, side="right") - first
    ref = np.repeat(np.arange(len(ref_onset)), count)
    within = np.arange(len(ref)) - np.repeat(np.cumsum(count) - count, count)
    est = order[np.repeat(first, count) + within]
    keep = np.around(np.abs(ref_onset[ref] - est_onset[est]), _DECIMALS) <= tolerance
    return ref[keep], est[keep]


def _largest_matching(ref: IntArray, est: IntArray, num_ref: int, num_est: int) -> IntArray:
    """Maximum bipartite matching of the graph with edges ``(ref[i], est[i])``."""
    matched = np.full(num_ref, -1, dtype=np.int64)
    alone = (np.bincount(ref, minlength=num_ref)[ref] == 1) & (np.bincount(est, minlength=num_est)[est] == 1)
    matched[ref[alone]] = est[alone]
    ref, est = ref[~alone], est[~alone]
    if ref.size:
        graph = csr_matrix((np.ones(ref.size, dtype=np.int8), (ref, est)), shape=(num_ref, num_est))
        rest = np.asarray(maximum_bipartite_matching(graph, perm_type="column"), dtype=np.int64)
        matched = np.where(matched >= 0, matched, rest)
    return matched
