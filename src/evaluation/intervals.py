"""Notes as runs of frames, counted without a piano roll: the cost depends on the notes, not on the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .matching import FloatArray, IntArray

_DECIMALS = 6
# A time divided by the frame length is rounded to this many decimals, so that 0.29 s lies on frame 29 of a
# 10 ms grid although 0.29 / 0.01 is 28.999999999999996.


@dataclass(frozen=True)
class Runs:
    """Runs of frames ``first <= frame < stop``, each of one group (a pitch)."""

    group: IntArray
    first: IntArray
    stop: IntArray

    @property
    def num_cells(self) -> int:
        """Frames of all runs together."""
        return int((self.stop - self.first).sum())


def frame_position(seconds: FloatArray, hop: float) -> FloatArray:
    """Times in frames, free of the rounding of the division."""
    position: FloatArray = np.around(np.asarray(seconds, dtype=np.float64) / hop, _DECIMALS)
    return position


def touched_frames(group: IntArray, onset: FloatArray, offset: FloatArray, hop: float) -> Runs:
    """From the frame that holds the onset up to the one before that of the offset, at least one frame.

    Frame ``k`` is the time from ``k * hop`` to ``(k + 1) * hop``. Runs of one group that overlap become one.
    """
    first = np.floor(frame_position(onset, hop)).astype(np.int64)
    stop = np.maximum(np.floor(frame_position(offset, hop)).astype(np.int64), first + 1)
    return merge_runs(Runs(np.asarray(group, dtype=np.int64), first, stop))


def merge_runs(runs: Runs) -> Runs:
    """The same cells in runs that do not overlap, sorted by group and time. Frames must not be negative."""
    if not len(runs.first):
        return runs
    # Groups lie one after the other on one axis, so that a single running maximum serves all.
    width = int(runs.stop.max()) + 1
    start, end = runs.group * width + runs.first, runs.group * width + runs.stop
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate([[True], start[1:] > reached[:-1]])
    last = np.concatenate([new[1:], [True]])
    group = runs.group[order][new]
    return Runs(group, start[new] - group * width, reached[last] - group * width)


def shared_cells(reference: Runs, estimate: Runs) -> int:
    """Sum over groups and frames of the smaller of the two numbers of runs there.

    With runs of single pitches this is the number of cells both have; with pitches put together to pitch
    classes it is the size of the matching within each frame.
    """
    if not len(reference.first) or not len(estimate.first):
        return 0
    width = max(int(reference.stop.max()), int(estimate.stop.max())) + 1
    edges = [run.group * width + frame for run in (reference, estimate) for frame in (run.first, run.stop)]
    position = np.concatenate(edges)
    order = np.argsort(position, kind="stable")
    sizes = [len(edge) for edge in edges]
    ref_level = np.cumsum(np.repeat([1, -1, 0, 0], sizes)[order])
    est_level = np.cumsum(np.repeat([0, 0, 1, -1], sizes)[order])
    return int((np.minimum(ref_level, est_level)[:-1] * np.diff(position[order])).sum())
