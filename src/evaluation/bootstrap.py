"""How far a mean over songs can be trusted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def bootstrap_interval(
    values: Iterable[float], *, confidence: float = 0.95, num_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over songs (Efron 1979).

    NaN values are left out. Without values both ends are NaN; with one, both are that value. The same
    values and seed give the same interval.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    array = np.asarray(list(values), dtype=np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        return float("nan"), float("nan")
    rng = np.random.default_rng(seed)
    means = array[rng.integers(0, array.size, size=(num_resamples, array.size))].mean(axis=1)
    low, high = np.quantile(means, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return float(low), float(high)
