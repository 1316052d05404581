"""Cross-stem mixing: how many foreign sources join a segment, and which of their stems may."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

DRUM_CLASS = -1
"""Class of drum stems in :func:`allowed_groups`."""


def foreign_count_probabilities(max_k: int, tau: float, alpha: float = 1.0) -> npt.NDArray[np.float64]:
    """P(k) of k = 0 ... ``max_k`` foreign sources (Chang et al. 2024, YourMT3+).

    The survival function is S(k) = exp(-(k tau)^alpha); P(k) = S(k) - S(k + 1), and P(max_k) = S(max_k).
    """
    survival = np.array([math.exp(-((k * tau) ** alpha)) for k in range(max_k + 1)] + [0.0])
    probabilities: npt.NDArray[np.float64] = survival[:-1] - survival[1:]
    return probabilities


def draw_foreign_count(rng: np.random.Generator, probabilities: npt.NDArray[np.float64]) -> int:
    """One number of foreign sources."""
    return min(
        int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right")), len(probabilities) - 1
    )


def allowed_groups(
    groups: Sequence[frozenset[int]],
    present: set[int],
    *,
    no_instr_overlap: bool,
    no_drum_overlap: bool,
) -> npt.NDArray[np.bool_]:
    """Which groups of a foreign source may join.

    Args:
        groups: instrument classes of each group (``DRUM_CLASS`` for drums; empty for sound without notes).
        present: classes that the segment has already.
        no_instr_overlap: refuse groups that share a class, drums included, with what is there.
        no_drum_overlap: refuse drums where there are drums.
    """
    allowed = np.ones(len(groups), dtype=bool)
    for number, classes in enumerate(groups):
        common = classes & present
        if (no_instr_overlap and common) or (no_drum_overlap and DRUM_CLASS in common):
            allowed[number] = False
    return allowed
