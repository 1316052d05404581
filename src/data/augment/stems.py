"""Stem dropping: which groups of stems of a source are heard."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]


def choose_stems(
    rng: np.random.Generator, keep_prob: float, always: BoolArray, with_notes: BoolArray
) -> BoolArray:
    """Which of G groups of stems are kept.

    Each group is kept with probability ``keep_prob``, independently; a group in ``always`` is kept in any
    case. When nothing is kept, one group is drawn: one of those with notes in the window if there is any,
    else any one. A probability of 1 keeps all.

    Args:
        rng: takes the same number of draws for any outcome.
        keep_prob: probability that a group is kept.
        always: (G,) groups that are never dropped (those of the task's target programs, when the task
            has only some programs as targets).
        with_notes: (G,) groups that have target notes in the window.

    Returns:
        (G,) bool, at least one True when G > 0.
    """
    draws = rng.random(len(always))
    last = float(rng.random())
    if keep_prob >= 1.0 or not len(always):
        return np.ones(len(always), dtype=bool)
    keep: BoolArray = always | (draws < keep_prob)
    if not keep.any():
        candidates = np.flatnonzero(with_notes) if with_notes.any() else np.arange(len(always))
        keep[candidates[int(last * len(candidates))]] = True
    return keep
