"""Scores of a split, random baselines, charts and the report page."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.data.store import SongStore, StoreWriter
from amt.evaluation import note_prf
from amt.notes import Note, array_to_notes, notes_to_array
from amt.quickstart.baselines import random_notes_like
from amt.quickstart.report import QuickstartResult, read_metrics, write_report
from amt.quickstart.scoring import (
    SongScore,
    score_predictions,
    score_random,
    score_split,
    summarise,
    write_scores,
)
from amt.reports.page import Example

MELODY = [Note(0.5 * i, 0.5 * i + 0.4, 60 + (i * 5) % 12, 100, False, 90) for i in range(20)]
BAND = [Note(0.5 * i, 0.5 * i + 0.4, 45 + i % 7, 33, False, 90) for i in range(20)]
DRUMS = [Note(0.25 * i, 0.25 * i + 0.01, 36, 128, True, 90) for i in range(40)]


@pytest.fixture
def store(tmp_path: Path) -> SongStore:
    with StoreWriter(tmp_path / "store", "tiny") as writer:
        for name, notes in (("one", MELODY + BAND + DRUMS), ("two", MELODY[:10] + BAND), ("none", BAND)):
            stems = np.zeros((1, 160000), np.int16)
            programs = [[100, 33, 128]]
            writer.add_song("test_standard", name, stems, programs, ["band"], notes_to_array(notes), {})
    return SongStore.open(tmp_path / "store")


class Knows:
    """Transcribes by looking at the answer, with one wrong voice note for each song."""

    def __init__(self, store: SongStore, split: str) -> None:
        self.answers = [array_to_notes(store.song(split, i).notes) for i in range(len(store.index(split)))]

    def transcribe(self, song: object, sample_rate: int | None = None) -> "Knows":
        assert np.shape(song) == (160000,)
        assert sample_rate == 16000
        self.notes = [*self.answers.pop(0), Note(9.9, 10, 90, 100)]
        return self


def test_score_split(store: SongStore) -> None:
    done: list[tuple[int, int]] = []
    score = score_split(Knows(store, "test_standard"), store, "test_standard", lambda *at: done.append(at))  # type: ignore[arg-type]
    assert (score.num_songs, score.num_notes, len(score.songs)) == (2, 30, 3)
    assert score.onset_f == pytest.approx((40 / 41 + 20 / 21) / 2)
    assert score.offset_f == score.onset_f
    assert score.precision == pytest.approx((20 / 21 + 10 / 11) / 2)
    assert score.recall == 1.0
    assert score.interval[0] <= score.onset_f <= score.interval[1]
    assert math.isnan(score.songs[2].onset_f)
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_empty_estimates_count_as_zero(store: SongStore) -> None:
    score = score_predictions(lambda song: [], store, "test_standard")
    assert (score.onset_f, score.precision, score.recall) == (0.0, 0.0, 0.0)


def test_random_is_bad_and_repeatable(store: SongStore) -> None:
    first, second = score_random(store, "test_standard", 1), score_random(store, "test_standard", 1)
    assert first == second or first.onset_f == second.onset_f
    assert first.onset_f < 0.3
    assert all(song.num_notes == song.num_estimate for song in first.songs)


def test_random_notes_are_like_the_reference() -> None:
    reference = [*MELODY * 40, *DRUMS]
    notes = random_notes_like(reference, np.random.default_rng(0), 10.0)
    assert len(notes) == len(reference)
    pitches = [n.pitch for n in notes if not n.is_drum]
    assert (min(pitches), max(pitches)) == (60, 71)
    assert {n.pitch for n in notes if n.is_drum} == {36}
    assert {n.program for n in notes} == {100, 128}
    onsets = np.array([n.onset for n in notes])
    assert onsets.min() >= 0
    assert onsets.max() <= 10
    assert np.mean(onsets) == pytest.approx(5, abs=0.5)
    assert {round(n.offset - n.onset, 6) for n in notes if not n.is_drum} == {0.4}
    assert random_notes_like([], np.random.default_rng(0)) == []
    # One song of 20 notes against itself drawn at random: chance level, far from right.
    rng = np.random.default_rng(0)
    drawn = [note_prf(MELODY, random_notes_like(MELODY, rng, 10.0)).f for _ in range(50)]
    assert 0.0 < np.mean(drawn) < 0.12


def test_scores_are_strict_json(store: SongStore, tmp_path: Path) -> None:
    score = score_random(store, "test_standard")
    write_scores(tmp_path / "metrics.json", {"random": {"test_standard": score}}, {"steps": 3, "x": math.nan})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    plain = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=refuse)
    assert plain["data"] == "synthetic"
    assert plain["x"] is None
    assert plain["scores"]["random"]["test_standard"]["num_notes"] == 30
    assert plain["scores"]["random"]["test_standard"]["songs"][2]["onset_f"] is None


def test_no_songs() -> None:
    score = summarise("empty", [SongScore("a", math.nan, math.nan, math.nan, math.nan, 0, 3)])
    assert score.num_songs == 0
    assert math.isnan(score.onset_f)


def test_report_is_one_whole_page(store: SongStore, read_page: Any, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "epoch,step,train_loss,val_loss,validation/macro_onset_f,validation/macro_offset_f,note\n"
        + "".join(f"0,{s},{4 / (s + 1)},,,,x\n" for s in range(0, 500, 5))
        + "0,250,,0.9,0.4,0.3,\n0,499,,nan,0.8,0.7,\n"
    )
    random = {split: score_random(store, "test_standard") for split in ("test_standard", "test_hard")}
    example = Example(
        "song <1> & more",
        np.random.default_rng(0).standard_normal(32000).astype(np.float32) * 0.1,
        16000,
        MELODY[:5],
        MELODY[:6],
        0.5,
        0.25,
    )
    data = QuickstartResult(
        {"trained": random, "untrained": {"test_standard": random["test_standard"]}, "random": random},
        read_metrics(tmp_path / "metrics.csv"),
        [example],
        {"parameters": "0.61 M", "data hash": "<abc>"},
    )
    write_report(tmp_path / "report.html", data)
    page = read_page(tmp_path / "report.html")
    assert page.tags.count("audio") == 3
    assert page.tags.count("img") == 1
    assert page.tags.count("polyline") == 4
    for words in ("synthetic", "2 songs, 30 notes", "song <1> & more", "<abc>", "Hard mixes", "untrained"):
        assert words in page.text, words


def test_report_without_a_log(tmp_path: Path) -> None:
    write_report(tmp_path / "a.html", QuickstartResult({}, []))
    assert "No values were logged" in (tmp_path / "a.html").read_text(encoding="utf-8")
