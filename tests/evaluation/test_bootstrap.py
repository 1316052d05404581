"""Bootstrap intervals against theory and against scipy's resampling."""

import math

import numpy as np
import pytest
from scipy import stats

from amt.evaluation import bootstrap_interval, bootstrap_pooled_interval, paired_bootstrap

VALUES = np.random.default_rng(1).normal(0.8, 0.1, 40)


def test_interval_of_a_mean() -> None:
    low, high = bootstrap_interval([*VALUES, math.nan])
    error = VALUES.std(ddof=1) / math.sqrt(40)
    assert low == pytest.approx(VALUES.mean() - 1.96 * error, abs=0.4 * error)
    assert high == pytest.approx(VALUES.mean() + 1.96 * error, abs=0.4 * error)
    judge = stats.bootstrap(
        (VALUES,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert (low, high) == pytest.approx(judge, abs=0.1 * error)


def test_same_values_and_seed_give_the_same() -> None:
    assert bootstrap_interval(VALUES) == bootstrap_interval(list(VALUES))
    assert bootstrap_interval(VALUES) != bootstrap_interval(VALUES, seed=1)
    narrow, wide = bootstrap_interval(VALUES, confidence=0.5), bootstrap_interval(VALUES)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_few_songs() -> None:
    assert all(math.isnan(end) for end in bootstrap_interval([math.nan]))
    assert bootstrap_interval([0.5]) == (0.5, 0.5)


def test_pooled_interval() -> None:
    rng = np.random.default_rng(2)
    below = rng.integers(20, 200, 50)
    above = rng.binomial(below, 0.7)
    low, high = bootstrap_pooled_interval([*above, 0], [*below, 0])
    assert low < above.sum() / below.sum() < high
    judge = stats.bootstrap(
        (above, below),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert (low, high) == pytest.approx(judge, abs=0.1 * (high - low))
    # Songs of equal length: the pooled score is the mean.
    equal = bootstrap_pooled_interval(VALUES * 10, np.full(40, 10))
    assert equal == pytest.approx(bootstrap_interval(VALUES))
    assert all(math.isnan(end) for end in bootstrap_pooled_interval([0], [0]))


def test_paired_comparison_sees_what_single_intervals_hide() -> None:
    rng = np.random.default_rng(3)
    better = VALUES + 0.02 + rng.normal(0, 0.01, 40)
    separate = bootstrap_interval(VALUES), bootstrap_interval(better)
    assert separate[0][1] > separate[1][0]  # the intervals overlap
    result = paired_bootstrap([*VALUES, math.nan, 0.5], [*better, 0.5, math.nan])
    assert result.num_songs == 40
    assert result.difference == pytest.approx((better - VALUES).mean())
    assert result.interval[0] > 0.0
    assert result.interval == bootstrap_interval(better - VALUES)
    assert result.share_better == 1.0
    back = paired_bootstrap(better, VALUES)
    assert back.difference == pytest.approx(-result.difference)
    assert back.share_better == 0.0


def test_paired_comparison_of_equals() -> None:
    result = paired_bootstrap(VALUES, VALUES)
    assert (result.difference, result.interval, result.share_better) == (0.0, (0.0, 0.0), 0.5)
    empty = paired_bootstrap([math.nan], [1.0])
    assert empty.num_songs == 0
    assert math.isnan(empty.difference)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1.0], confidence=95)
    with pytest.raises(ValueError, match="num_resamples"):
        bootstrap_interval([1.0], num_resamples=0)
    with pytest.raises(ValueError, match="one for each song"):
        paired_bootstrap([1.0], [1.0, 0.5])
    with pytest.raises(ValueError, match="each song needs both"):
        bootstrap_pooled_interval([1.0], [])
