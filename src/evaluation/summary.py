"""From the songs of a test to its figures: means and pooled scores with intervals; two systems compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .accumulator import MetricSums
from .bootstrap import PairedDifference, bootstrap_interval, bootstrap_pooled_interval, paired_bootstrap
from .counts import Ratio

PREFIX = "test/"
NUM_RESAMPLES = 2000
CONFIDENCE = 0.95
BOOTSTRAP_SEED = 0


@dataclass(frozen=True)
class SongScores:
    """The scores of one song."""

    scores: Mapping[str, float]
    """Key to score (:meth:`~.counts.FileCounts.scores`)."""
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    """Counts behind the scores (:meth:`~.counts.FileCounts.ratios`)."""


@dataclass(frozen=True)
class Metric:
    """A figure, its bootstrap interval over songs, and how many songs it rests on."""

    value: float
    low: float
    high: float
    num_songs: int


def metric_table(sets: Mapping[str, Sequence[SongScores]]) -> dict[str, Metric]:
    """All figures of a test under the names of the logs; those that no song counted for are left out.

    ``test/({set}){key}`` is the mean over the songs of a set, ``test/({set})micro_{key}`` the score of their
    counts added up, and ``test/macro_{key}`` and ``test/micro_{key}`` are those of the songs of all sets.
    """
    songs = {name: list(items) for name, items in sets.items()}
    keys = {name: _keys_of(items, "scores") for name, items in songs.items()}
    pooled = list(dict.fromkeys(key for items in songs.values() for key in _keys_of(items, "ratios")))
    sums = MetricSums(keys, pooled)
    for name, items in songs.items():
        for item in items:
            sums.update(name, item.scores, item.ratios)
    values = sums.compute(PREFIX)
    every = [item for items in songs.values() for item in items]
    scopes = [("macro_", "micro_", every)]
    scopes += [(f"({name})", f"({name})micro_", items) for name, items in songs.items()]
    table: dict[str, Metric] = {}
    for mean_name, pooled_name, items in scopes:
        for key in _keys_of(items, "scores"):
            name = f"{PREFIX}{mean_name}{key}"
            if name in values:
                table[name] = _mean(values[name], [item.scores.get(key, math.nan) for item in items])
        for key in _keys_of(items, "ratios"):
            name = f"{PREFIX}{pooled_name}{key}"
            if name in values:
                table[name] = _pooled(
                    values[name], [item.ratios[key] for item in items if key in item.ratios]
                )
    return table


def compare_songs(
    a: Mapping[tuple[str, str], Mapping[str, float]], b: Mapping[tuple[str, str], Mapping[str, float]]
) -> dict[str, PairedDifference]:
    """How much better B is than A on the songs that both scored, for each set and for all sets together.

    Args:
        a, b: the scores of each song by (set, song id).

    Returns:
        The names of :func:`metric_table` for means, as far as both have a score for some song.
    """
    both = [song for song in a if song in b]
    scopes = [("macro_", both)]
    scopes += [
        (f"({name})", [song for song in both if song[0] == name])
        for name in dict.fromkeys(s for s, _ in both)
    ]
    table: dict[str, PairedDifference] = {}
    for prefix, songs in scopes:
        keys = dict.fromkeys(key for song in songs for key in a[song] if key in b[song])
        for key in keys:
            columns = [[scores[song].get(key, math.nan) for song in songs] for scores in (a, b)]
            found = paired_bootstrap(
                *columns, confidence=CONFIDENCE, num_resamples=NUM_RESAMPLES, seed=BOOTSTRAP_SEED
            )
            if found.num_songs:
                table[f"{PREFIX}{prefix}{key}"] = found
    return table


def _keys_of(songs: Sequence[SongScores], what: str) -> list[str]:
    return list(dict.fromkeys(key for song in songs for key in getattr(song, what)))


def _mean(value: float, scores: Sequence[float]) -> Metric:
    low, high = bootstrap_interval(
        scores, confidence=CONFIDENCE, num_resamples=NUM_RESAMPLES, seed=BOOTSTRAP_SEED
    )
    return Metric(value, low, high, sum(math.isfinite(score) for score in scores))


def _pooled(value: float, ratios: Sequence[Ratio]) -> Metric:
    above, below = [ratio[0] for ratio in ratios], [ratio[1] for ratio in ratios]
    low, high = bootstrap_pooled_interval(
        above, below, confidence=CONFIDENCE, num_resamples=NUM_RESAMPLES, seed=BOOTSTRAP_SEED
    )
    return Metric(value, low, high, sum(size > 0 for size in below))
