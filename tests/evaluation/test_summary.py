"""Figures of a test: the means of MetricSums under the names of the logs, with intervals; two systems held
against each other."""

import math

import numpy as np
import pytest

from amt.evaluation import (
    MetricSums,
    Scoring,
    ShiftSums,
    SongScores,
    bootstrap_interval,
    bootstrap_pooled_interval,
    compare_songs,
    metric_table,
    scan_shifts,
)
from amt.notes.note import Note

SCORING = Scoring({"Piano": (0,), "Voice": (100,)})


def song(seed: int, program: int = 0) -> tuple[list[Note], list[Note]]:
    rng = np.random.default_rng(seed)
    onset = np.cumsum(rng.uniform(0.2, 0.5, 30))
    reference = [
        Note(t, t + 0.2, int(p), program) for t, p in zip(onset, rng.integers(50, 70, 30), strict=True)
    ]
    kept = [note for note in reference if rng.random() < 0.7]
    return reference, [note._replace(onset=note.onset + 0.01) for note in kept] + reference[:3]


def scores(seed: int, program: int = 0) -> SongScores:
    counts = SCORING.counts(*song(seed, program))
    return SongScores(counts.scores(), counts.ratios())


def test_means_and_pooled_scores_with_their_intervals() -> None:
    sets = {"a": [scores(n) for n in range(5)], "b": [scores(n, 100) for n in range(5, 8)]}
    table = metric_table(sets)
    sums = MetricSums({name: SCORING.keys() for name in sets}, list(sets["a"][0].ratios))
    for name, songs in sets.items():
        for item in songs:
            sums.update(name, item.scores, item.ratios)
    expected = sums.compute("test/")
    assert {key: metric.value for key, metric in table.items()} == expected
    assert "test/(a)onset_f_Piano" in table
    assert "test/(a)onset_f_Voice" not in table, "no song of the set has a voice"
    mean = table["test/(a)onset_f"]
    values = [item.scores["onset_f"] for item in sets["a"]]
    assert (mean.low, mean.high) == bootstrap_interval(values)
    assert mean.num_songs == 5
    pooled = table["test/micro_onset_f"]
    ratios = np.array([item.ratios["onset_f"] for songs in sets.values() for item in songs])
    assert (pooled.low, pooled.high) == bootstrap_pooled_interval(ratios[:, 0], ratios[:, 1])
    assert pooled.value == pytest.approx(ratios[:, 0].sum() / ratios[:, 1].sum())
    assert table["test/macro_onset_f_Voice"].num_songs == 3
    for metric in table.values():
        assert metric.low <= metric.value + 1e-9
        assert metric.value <= metric.high + 1e-9


def test_two_systems_on_the_songs_they_share() -> None:
    a = {("s", f"{n}"): {"onset_f": n / 10, "x": math.nan} for n in range(6)}
    b = {("s", f"{n}"): {"onset_f": n / 10 + 0.1, "x": 1.0} for n in range(2, 9)}
    b |= {("t", "0"): {"onset_f": 1.0}}
    found = compare_songs(a, b)
    assert set(found) == {"test/macro_onset_f", "test/(s)onset_f"}
    better = found["test/(s)onset_f"]
    assert (better.num_songs, better.share_better) == (4, 1.0)
    assert better.difference == pytest.approx(0.1)
    assert better.interval == pytest.approx((0.1, 0.1))


def test_a_scan_over_songs_adds_their_counts() -> None:
    sums = ShiftSums((0, 12), (0.0, 0.05))
    assert sums.scores() == []
    songs = [song(n) for n in range(3)]
    for reference, estimate in songs:
        sums.add(reference, estimate)
    single = [scan_shifts(*pair, semitones=(0, 12), seconds=(0.0, 0.05)) for pair in songs]
    for place, found in enumerate(sums.scores()):
        parts = [scan[place] for scan in single]
        assert (found.semitones, found.seconds) == (parts[0].semitones, parts[0].seconds)
        assert found.score.num_matched == sum(part.score.num_matched for part in parts)
        assert found.score.num_reference == 90
