"""A test of a system: its figures are those of mir_eval on the written MIDI files; nothing is lost."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import mir_eval
import numpy as np
import pytest

from amt.config.vocabularies import get_program_vocab
from amt.data.scored import ScoredSet
from amt.data.store import SongStore
from amt.evaluation import bootstrap_interval, score_notes
from amt.notes import Note, array_to_notes, read_midi
from amt.reports.plan import TestPlan
from amt.reports.run import Extremes, run_test


def mir_f(reference: list[Note], estimate: list[Note], offset_ratio: float | None = None) -> float:
    sides = []
    for notes in (reference, estimate):
        times = np.array([[note.onset, note.offset] for note in notes]).reshape(-1, 2)
        sides += [times, mir_eval.util.midi_to_hz(np.array([note.pitch for note in notes], dtype=float))]
    return mir_eval.transcription.precision_recall_f1_overlap(*sides, offset_ratio=offset_ratio)[2]


def test_scores_are_those_of_mir_eval_on_the_written_midi(noisy, band_set: ScoredSet, tmp_path: Path) -> None:
    """The errors of the estimate lie more than 5 ms from every tolerance, and MIDI ticks are about 1 ms, so
    that the figures must be equal; frames have edges everywhere, so they may differ a little."""
    run = run_test(noisy, [band_set], TestPlan(), tmp_path)
    assert len(run.result.songs) == 4
    by_song: dict[str, list[float]] = {}
    for number, song in enumerate(run.result.songs):
        assert (song.song_id, song.num_windows, song.num_malformed) == (f"song{number}", 7, number)
        assert song.midi == f"midi/band/song{number}.mid"
        reference = array_to_notes(band_set.store.song("test", number).notes)
        estimate = read_midi(tmp_path / song.midi)
        scores = song.scores.scores
        pitched = [[note for note in side if not note.is_drum] for side in (reference, estimate)]
        expected = {"onset_f": mir_f(*pitched), "offset_f": mir_f(*pitched, offset_ratio=0.2)}
        for name, programs in get_program_vocab("gm_plus").items():
            part = [[note for note in side if note.program in programs] for side in pitched]
            if part[0]:
                expected[f"onset_f_{name}"] = mir_f(*part)
                expected[f"offset_f_{name}"] = mir_f(*part, offset_ratio=0.2)
        assert len(expected) == 6
        for key, value in expected.items():
            assert scores[key] == pytest.approx(value, abs=1e-9), (song.song_id, key)
            by_song.setdefault(key, []).append(value)
        assert scores["onset_f_drum"] == 1.0, "35 and 36, 38 and 40 are one class"
        again = score_notes(reference, estimate, "gm_plus", "gm", duration=12.0)
        assert scores["frame_f"] == pytest.approx(again["frame_f"], abs=0.02)
        assert scores["multi_f"] == pytest.approx(again["multi_f"], abs=1e-9)
    assert min(by_song["onset_f"]) < 0.8 < max(by_song["onset_f"]) < 1.0
    for key, values in by_song.items():
        metric = run.result.metrics[f"test/(band){key}"]
        assert metric.value == pytest.approx(np.mean(values))
        assert (metric.low, metric.high) == pytest.approx(bootstrap_interval(values))
        assert metric == run.result.metrics[f"test/macro_{key}"]


def test_the_best_and_worst_songs_are_shown_once_each(noisy, band_set: ScoredSet, tmp_path: Path) -> None:
    run = run_test(noisy, [band_set], TestPlan(num_shown=3, write_midi=False), tmp_path)
    assert list(tmp_path.iterdir()) == [], "no MIDI"
    ranked = sorted(run.result.songs, key=lambda song: -song.scores.scores["onset_f"])
    shown = run.shown["band"]
    assert [song.result.song_id for song in shown.best] == [song.song_id for song in ranked[:3]]
    assert [song.result.song_id for song in shown.worst] == [ranked[3].song_id]
    example = shown.worst[0].example()
    assert len(example.audio) == 12 * 16000
    assert example.onset_f == ranked[3].scores.scores["onset_f"]
    none = run_test(noisy, [band_set], TestPlan(num_shown=0, write_midi=False), tmp_path).shown["band"]
    assert none == Extremes(0)


def test_a_song_that_fails_is_named_and_the_others_count(
    make_system, band_set: ScoredSet, tmp_path: Path
) -> None:
    def hear(number: int, notes: list[Note]) -> list[Note]:
        if number == 1:
            raise ValueError("cannot hear this one")
        return notes

    seen: list[tuple[int, int, float]] = []
    run = run_test(make_system(hear), [band_set], TestPlan(), tmp_path, lambda *at: seen.append(at))
    [item] = run.result.sets
    assert [(failure.song_id, failure.reason) for failure in item.failures] == [
        ("song1", "cannot hear this one")
    ]
    assert [song.song_id for song in run.result.songs] == ["song0", "song2", "song3"]
    assert run.result.metrics["test/(band)multi_f"].value == 1.0
    assert seen == [(n, 4, 12.0 * n) for n in (1, 2, 3, 4)]

    def deaf(number: int, notes: list[Note]) -> list[Note]:
        raise ValueError("deaf")

    with pytest.raises(ValueError, match="not one of 4 songs could be scored; song0: deaf"):
        run_test(make_system(deaf), [band_set], TestPlan(), tmp_path)


def test_the_plan_says_what_is_scored(make_system, band_set: ScoredSet, tmp_path: Path) -> None:
    def late_and_low(number: int, notes: list[Note]) -> list[Note]:
        moved = [note._replace(onset=note.onset + 0.08, offset=note.offset + 0.08) for note in notes]
        return [note._replace(pitch=note.pitch - 12) if note.program == 33 else note for note in moved]

    system = make_system(late_and_low)
    plain = run_test(system, [band_set], TestPlan(max_songs=2), tmp_path).result
    assert len(plain.songs) == 2
    assert plain.metrics["test/(band)onset_f"].value == 0.0
    assert "test/(band)onset_f_Bass_pc" not in plain.metrics
    plan = TestPlan(
        eval_vocab="bass_solo",
        eval_drum_vocab="ksh",
        onset_tolerance=0.1,
        pitch_class=True,
        octave_shift=True,
        label_shift=True,
    )
    result = run_test(system, [band_set], plan, tmp_path).result
    [item] = result.sets
    assert item.classes == {"Bass": tuple(range(32, 40))}
    assert result.metrics["test/(band)onset_f_Bass"].value == 0.0
    assert result.metrics["test/(band)onset_f_Bass_pc"].value == 1.0
    assert result.metrics["test/(band)onset_f_drum"].value == 1.0
    assert "test/(band)onset_f_Piano" not in result.metrics
    plan = TestPlan(octave_shift=True, label_shift=True)
    [item] = run_test(system, [band_set], plan, tmp_path).result.sets
    best = {row.classes: row for row in item.octave_shift if row.is_best}
    assert set(best) == {"all", "Piano", "Bass"}
    assert best["Bass"].semitones == 0, "80 ms late, no octave fits"
    [best_time] = [row for row in item.label_shift if row.is_best]
    assert best_time.seconds == pytest.approx(0.03), "the least shift that brings all within 50 ms"
    plan = TestPlan(octave_shift=True, onset_tolerance=0.1)
    [item] = run_test(system, [band_set], plan, tmp_path).result.sets
    best = {row.classes: row for row in item.octave_shift if row.is_best}
    assert (best["Bass"].semitones, best["Bass"].onset_f) == (-12, 1.0)
    assert best["Piano"].semitones == 0


def test_a_system_that_finds_nothing(make_system, band_set: ScoredSet, tmp_path: Path) -> None:
    silent = run_test(make_system(lambda number, notes: []), [band_set], TestPlan(), tmp_path).result
    assert silent.metrics["test/macro_onset_f"].value == 0.0
    assert silent.metrics["test/macro_frame_f"].value == 0.0
    errors = silent.songs[0].errors
    assert errors.counts["missed"] == errors.num_reference
    assert math.isnan(errors.to_dict()["onset_deviation"]["mean_ms"])
    with pytest.raises(ValueError, match="no song to score in band"):
        run_test(
            make_system(lambda number, notes: []), [replace(band_set, split="empty")], TestPlan(), tmp_path
        )


def test_the_scan_at_no_shift_is_the_pooled_score(noisy, band_set: ScoredSet, tmp_path: Path) -> None:
    result = run_test(noisy, [band_set], TestPlan(octave_shift=True, label_shift=True), tmp_path).result
    [item] = result.sets
    [still] = [row.onset_f for row in item.octave_shift if (row.classes, row.semitones) == ("all", 0)]
    assert still == pytest.approx(result.metrics["test/(band)micro_onset_f"].value)
    sums = np.sum(
        [song.scores.ratios[key] for song in result.songs for key in ("onset_f", "onset_f_drum")], 0
    )
    [still] = [row.onset_f for row in item.label_shift if row.seconds == 0.0]
    assert still == pytest.approx(sums[0] / sums[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eval_vocab": "gm_pls"}, "did you mean 'gm_plus'"),
        ({"eval_drum_vocab": "nosuch"}, "drum vocabulary"),
        ({"onset_tolerance": 0.0}, "--onset-tolerance"),
        ({"max_songs": -1}, "--max-songs"),
        ({"num_shown": -1}, "--report-songs"),
    ],
)
def test_refusals(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TestPlan(**change)


def test_a_song_whose_notes_cannot_be_read_counts_in_the_progress(
    noisy, data_home: Path, tmp_path: Path
) -> None:
    shutil.copytree(data_home / "band", tmp_path / "band")
    (tmp_path / "band" / "songs" / "song2" / "notes.npy").write_bytes(b"broken")
    scored = ScoredSet("band", SongStore.open(tmp_path / "band"), "test", "gm_plus", "gm")
    seen: list[tuple[int, int, float]] = []
    run = run_test(noisy, [scored], TestPlan(), tmp_path / "out", lambda *at: seen.append(at))
    assert [failure.song_id for failure in run.result.sets[0].failures] == ["song2"]
    assert seen == [(1, 4, 0.0), (2, 4, 12.0), (3, 4, 24.0), (4, 4, 36.0)]
