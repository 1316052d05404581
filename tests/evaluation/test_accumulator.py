"""Means over files and ranks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from amt.evaluation import MetricSums, bootstrap_interval

CASES = json.loads((Path(__file__).parent / "data" / "m1_metric_cases.json").read_text())["cases"]
KEYS = {"slakh": ["onset_f", "onset_f_Bass"], "voice": ["onset_f"]}


def files(count: int) -> list[tuple[str, dict[str, float]]]:
    rng = np.random.default_rng(count)
    found: list[tuple[str, dict[str, float]]] = []
    for i in range(count):
        if i % 3:
            found.append(
                ("slakh", {"onset_f": rng.random(), "onset_f_Bass": math.nan if i % 2 else rng.random()})
            )
        else:
            found.append(("voice", {"onset_f": rng.random()}))
    return found


@pytest.mark.parametrize("count", [1, 3, 50])
def test_same_number_on_any_number_of_ranks(count: int) -> None:
    results = []
    for ranks in (1, 2, 3, 8):
        parts = [MetricSums(KEYS) for _ in range(ranks)]
        for i, (name, scores) in enumerate(files(count)):
            parts[i % ranks].update(name, scores)
        reduced = MetricSums(KEYS)
        reduced.load_list(np.sum([part.to_list() for part in reversed(parts)], axis=0).tolist())
        merged = MetricSums(KEYS)
        for part in parts:
            merged.merge(part)
        assert merged.compute() == reduced.compute()
        results.append(reduced.compute())
    assert all(result == results[0] for result in results)


def test_means_are_over_files_pooled() -> None:
    sums = MetricSums(KEYS)
    sums.update("slakh", {"onset_f": 0.25, "onset_f_Bass": math.nan})
    sums.update(0, {"onset_f": 0.75, "onset_f_Bass": math.nan})
    sums.update("voice", {"onset_f": 0.5})
    sums.update("voice", {"onset_f": 0.0})
    assert sums.compute() == {
        "validation/macro_onset_f": 0.375,
        "validation/(slakh)onset_f": 0.5,
        "validation/(voice)onset_f": 0.25,
    }
    assert math.isnan(sums.macro()["onset_f_Bass"])
    assert sums.num_files("voice") == 2
    sums.reset()
    assert sums.compute() == {}


def test_case_rank_sums() -> None:
    case = next(c for c in CASES if c["id"] == "e18")
    total = MetricSums({"a": ["onset_f"]})
    for rank in [*case["rank_values"], {"sum": 0.0, "n": 0}]:
        part = MetricSums({"a": ["onset_f"]})
        for _ in range(rank["n"]):
            part.update("a", {"onset_f": rank["sum"] / rank["n"]})
        total.merge(part)
    assert total.macro()["onset_f"] == pytest.approx(case["expected"]["mean"])


def test_absent_class_is_no_zero() -> None:
    case = next(c for c in CASES if c["id"] == "e16")
    sums = MetricSums({"a": ["f"]})
    for value in case["per_class_f"].values():
        sums.update("a", {"f": math.nan if value is None else value})
    assert sums.macro()["f"] == pytest.approx(case["expected"]["macro"], abs=1e-9)


def test_values_are_exact_to_a_ten_millionth() -> None:
    values = np.random.default_rng(0).random(1000)
    sums = MetricSums({"a": ["f"]})
    for value in values:
        sums.update("a", {"f": float(value)})
    assert sums.macro()["f"] == pytest.approx(values.mean(), abs=1e-9)


def test_refusals() -> None:
    sums = MetricSums(KEYS)
    with pytest.raises(ValueError, match="no evaluation set"):
        sums.update("other", {})
    with pytest.raises(ValueError, match="layout"):
        sums.update("voice", {"onset_f_Bass": 1.0})
    with pytest.raises(ValueError, match="same sets"):
        sums.merge(MetricSums({"voice": ["onset_f"]}))
    with pytest.raises(ValueError, match="numbers"):
        sums.load_list([0.0])


def test_bootstrap_interval() -> None:
    values = np.random.default_rng(1).normal(0.8, 0.1, 40)
    low, high = bootstrap_interval([*values, math.nan])
    error = values.std(ddof=1) / math.sqrt(40)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.4 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.4 * error)
    assert bootstrap_interval(values) == bootstrap_interval(list(values))
    assert all(math.isnan(end) for end in bootstrap_interval([math.nan]))
    assert bootstrap_interval([0.5]) == (0.5, 0.5)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1.0], confidence=95)
