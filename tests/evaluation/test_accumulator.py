"""Means over files and ranks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from amt.evaluation import HEADLINE_KEYS, MetricSums, Scoring
from amt.notes.note import Note

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
        results.append(reduced.compute())
    assert all(result == results[0] for result in results)


def random_songs(count: int) -> list[tuple[list[Note], list[Note]]]:
    """Pairs of reference and estimate, some of them empty on one side or both."""
    rng = np.random.default_rng(count)

    def notes() -> list[Note]:
        size = int(rng.choice([0, 3, 20]))
        return [
            Note(t, t + 0.2, int(p), int(q), bool(q == 128))
            for t, p, q in zip(
                rng.integers(0, 40, size) / 10,
                rng.integers(60, 63, size),
                rng.choice([33, 100, 128], size),
                strict=True,
            )
        ]

    return [(notes(), notes()) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 25])
def test_scores_of_real_files_on_any_number_of_ranks(count: int) -> None:
    scoring = Scoring({"Bass": (33,), "Voice": (100, 101)})
    layout = {"a": scoring.keys(), "b": scoring.keys()}
    pooled = list(scoring.counts([], []).ratios())
    songs = random_songs(count)
    counts = [scoring.counts(*song) for song in songs]
    results = []
    for ranks in (1, 2, 3, 7):
        for order in (range(count), reversed(range(count))):
            parts = [MetricSums(layout, pooled) for _ in range(ranks)]
            for i in order:
                parts[i % ranks].update("ab"[i % 2], counts[i].scores(), counts[i].ratios())
            total = MetricSums(layout, pooled)
            total.load_list(np.sum([part.to_list() for part in parts], axis=0).tolist())
            results.append(total.compute(skip_empty=False))
    for result in results:
        assert np.array_equal(list(result.values()), list(results[0].values()), equal_nan=True)
    # The numbers are the plain means and the plain pooled counts of all files.
    total_counts = counts[0]
    for part in counts[1:]:
        total_counts = total_counts + part
    for key in HEADLINE_KEYS:
        values = [part.scores()[key] for part in counts]
        values = [value for value in values if not math.isnan(value)]
        expected = np.mean(values) if values else math.nan
        assert results[0][f"validation/macro_{key}"] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert results[0][f"validation/micro_{key}"] == pytest.approx(
            total_counts.notes[key].f_strict, abs=1e-12, nan_ok=True
        )
    assert not any(math.isnan(value) for value in total.compute().values())


def test_pooled_scores() -> None:
    sums = MetricSums(KEYS, ["onset_f", "onset_f_Bass"])
    sums.update(
        "slakh", {"onset_f": 0.9, "onset_f_Bass": math.nan}, {"onset_f": (18, 20), "onset_f_Bass": (0, 0)}
    )
    sums.update("slakh", {"onset_f": 0.0}, {"onset_f": (0, 2), "onset_f_Bass": (0, 0), "other": (1, 1)})
    sums.update("voice", {"onset_f": math.nan}, {"onset_f": (0, 8)})
    values = sums.compute()
    assert values["validation/macro_onset_f"] == pytest.approx(0.45)
    assert values["validation/(slakh)micro_onset_f"] == pytest.approx(18 / 22)
    assert values["validation/(voice)micro_onset_f"] == 0.0  # false positives only
    assert values["validation/micro_onset_f"] == pytest.approx(18 / 30)
    assert "validation/micro_onset_f_Bass" not in values
    sums.reset()
    assert sums.compute() == {}


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
    sums.reset()
    assert sums.compute() == {}


def test_case_rank_sums() -> None:
    case = next(c for c in CASES if c["id"] == "e18")
    lists = []
    for rank in [*case["rank_values"], {"sum": 0.0, "n": 0}]:
        part = MetricSums({"a": ["onset_f"]})
        for _ in range(rank["n"]):
            part.update("a", {"onset_f": rank["sum"] / rank["n"]})
        lists.append(part.to_list())
    total = MetricSums({"a": ["onset_f"]})
    total.load_list(np.sum(lists, axis=0).tolist())
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
    with pytest.raises(ValueError, match="numbers"):
        sums.load_list([0.0])
    with pytest.raises(ValueError, match="needs its ratio"):
        MetricSums(KEYS, ["onset_f"]).update("voice", {"onset_f": 1.0})
