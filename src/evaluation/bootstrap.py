"""How far a score over songs can be trusted: percentile bootstrap over songs (Efron 1979)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .matching import FloatArray, IntArray

INTERVAL_SONGS = 3
"""Songs from which on an interval is worth showing: of fewer, drawing says next to nothing."""


def bootstrap_interval(
    values: Iterable[float], *, confidence: float = 0.95, num_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean over songs.

    NaN values are left out. Without values both ends are NaN; with one, both are that value. The same
    values and seed give the same interval.
    """
    array = np.asarray(list(values), dtype=np.float64)
    array = array[np.isfinite(array)]
    return bootstrap_pooled_interval(
        array, np.ones(len(array)), confidence=confidence, num_resamples=num_resamples, seed=seed
    )


def bootstrap_pooled_interval(
    numerators: Sequence[float] | FloatArray,
    denominators: Sequence[float] | FloatArray,
    *,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Interval of a pooled (micro) score: sum of numerators over sum of denominators of the songs drawn.

    Args:
        numerators, denominators: of each song, see :meth:`~.counts.FileCounts.ratios`; songs whose
            denominator is 0 are left out.
        confidence, num_resamples, seed: as in :func:`bootstrap_interval`.
    """
    above, below = (np.asarray(values, dtype=np.float64) for values in (numerators, denominators))
    if above.shape != below.shape:
        raise ValueError(f"{len(above)} numerators and {len(below)} denominators: each song needs both")
    above, below = above[below > 0], below[below > 0]
    picks = _draw(len(above), confidence, num_resamples, seed)
    if not len(above):
        return float("nan"), float("nan")
    return _percentiles(above[picks].sum(axis=1) / below[picks].sum(axis=1), confidence)


@dataclass(frozen=True)
class PairedDifference:
    """How much better system B is than A on the same songs."""

    difference: float
    """Mean over songs of B minus A; NaN without songs."""
    interval: tuple[float, float]
    """Bootstrap interval of the difference."""
    share_better: float
    """Share of the resamples in which B is better, ties as one half; 0.5 says nothing, 1 is sure."""
    num_songs: int
    """Songs that both systems have a score for."""


def paired_bootstrap(
    scores_a: Sequence[float],
    scores_b: Sequence[float],
    *,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> PairedDifference:
    """Compare two systems on the same songs in the same order; songs are drawn, not scores.

    Songs for which either score is NaN are left out.
    """
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (scores_a, scores_b))
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} and {len(b)} scores: both systems need one for each song, in one order")
    differences = (b - a)[np.isfinite(a) & np.isfinite(b)]
    picks = _draw(len(differences), confidence, num_resamples, seed)
    if not len(differences):
        return PairedDifference(float("nan"), (float("nan"), float("nan")), float("nan"), 0)
    means = differences[picks].mean(axis=1)
    share = float((means > 0).mean() + 0.5 * (means == 0).mean())
    return PairedDifference(
        float(differences.mean()), _percentiles(means, confidence), share, len(differences)
    )


def _draw(num_songs: int, confidence: float, num_resamples: int, seed: int) -> IntArray:
    """(resamples, songs) numbers of songs, drawn with replacement."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if num_resamples < 1:
        raise ValueError(f"num_resamples must be at least 1, not {num_resamples}")
    rng = np.random.default_rng(seed)
    return rng.integers(0, max(1, num_songs), size=(num_resamples, num_songs))


def _percentiles(means: FloatArray, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return float(low), float(high)
