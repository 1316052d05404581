"""Which estimated notes are which reference notes: maximum bipartite matching, as mir_eval counts.

Two notes can be matched when their onsets are within a tolerance, their pitches are equal and, where
asked, their offsets are within a tolerance that grows with the reference note. Distances in time are
rounded to four decimals and a distance equal to the tolerance counts (mir_eval 0.8, Raffel et al. 2014).
Pitches here are MIDI numbers, so "within 50 cents" is equality.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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
_PAIRS_PER_NOTE = 32
# Pairs of near onsets are listed all at once up to this many times the notes; real music has about one.


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
    num_ref, num_est = len(ref_onset), len(est_onset)
    if not num_ref or not num_est:
        return np.full(num_ref, -1, dtype=np.int64)
    _, group = np.unique(np.concatenate([ref_group, est_group]), return_inverse=True)
    onset = np.concatenate([ref_onset, est_onset])
    reach = onset_tolerance + _MARGIN
    # One sorted axis for all groups; the margin covers the rounding of these long numbers.
    key = group * (np.ptp(onset) + 4.0 * reach) + (onset - onset.min())
    ref_key, est_key = key[:num_ref], key[num_ref:]
    order = np.argsort(est_key, kind="stable")
    first = np.searchsorted(est_key[order], ref_key - reach, side="left")
    count = np.searchsorted(est_key[order], ref_key + reach, side="right") - first
    if offset_ratio is not None:
        offset_tolerance = np.maximum(offset_ratio * (ref_offset - ref_onset), offset_min_tolerance)

    def agreeing(ref: IntArray, est: IntArray) -> tuple[IntArray, IntArray]:
        """Those of some pairs (reference index, estimate index) that agree."""
        keep = np.around(np.abs(ref_onset[ref] - est_onset[est]), _DECIMALS) <= onset_tolerance
        ref, est = ref[keep], est[keep]
        if offset_ratio is None:
            return ref, est
        keep = np.around(np.abs(ref_offset[ref] - est_offset[est]), _DECIMALS) <= offset_tolerance[ref]
        return ref[keep], est[keep]

    if count.sum() > _PAIRS_PER_NOTE * (num_ref + num_est):

        def candidates(ref: int) -> IntArray:
            near = order[first[ref] : first[ref] + count[ref]]
            return agreeing(np.full(len(near), ref), near)[1]

        return _match_in_turn(candidates, np.argsort(ref_key, kind="stable"), num_est)
    ref = np.repeat(np.arange(num_ref), count)
    within = np.arange(len(ref)) - np.repeat(np.cumsum(count) - count, count)
    return _largest_matching(*agreeing(ref, order[np.repeat(first, count) + within]), num_ref, num_est)


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


def _match_in_turn(candidates: Callable[[int], IntArray], turns: IntArray, num_est: int) -> IntArray:
    """Maximum bipartite matching by augmenting paths, one reference note at a time (Kuhn 1955).

    Needs no list of the pairs, whose number is the square of the notes where thousands are equal.

    Args:
        candidates: the estimated notes a reference note agrees with.
        turns: every reference note, in the order in which they look for a partner. In the order of onsets,
            with candidates in it too, hardly any has to give way to a later one.
        num_est: number of estimated notes.
    """
    matched = np.full(len(turns), -1, dtype=np.int64)
    partner = np.full(num_est, -1, dtype=np.int64)
    asked_by = np.full(num_est, -1, dtype=np.int64)
    closed = np.zeros(num_est, dtype=bool)
    for root in turns.tolist():
        end, asked, waiting = -1, [], deque([root])
        while waiting and end < 0:
            ref = waiting.popleft()
            near = candidates(ref)
            near = near[~closed[near]]
            free = near[partner[near] < 0]
            if free.size:
                end = int(free[0])
                asked_by[end] = ref
            else:
                closed[near] = True
                asked_by[near] = ref
                asked.append(near)
                waiting.extend(partner[near].tolist())
        if end < 0:
            continue  # nothing reached from here can ever lead to a free note: it stays closed
        for near in asked:
            closed[near] = False
        while end >= 0:
            ref = int(asked_by[end])
            partner[end] = ref
            matched[ref], end = end, int(matched[ref])
    return matched
