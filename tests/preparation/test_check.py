"""Each thing that spoils training is planted in a data set and must be found, and nothing else."""

from __future__ import annotations

import importlib.util
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import resample_poly

from amt.cli import prepare
from amt.data.store import Song, SongStore, StoreWriter
from amt.notes import write_midi
from amt.notes.note import NOTE_DTYPE, NoteArray
from amt.preparation.check import WAYS_OUT, check_splits, print_check, splits_of_presets, splits_of_store
from amt.preparation.fingerprints import note_grams, same_notes, same_sound, sound_prints
from amt.preparation.generic import StoreSettings, prepare_folder
from amt.preparation.onsets import MIN_CLARITY, estimate_shift, onset_strength
from amt.reports.table import make_console

RATE = 16000
Change = Callable[[np.ndarray, NoteArray], tuple[np.ndarray, NoteArray]]


def tune(seed: int, seconds: float = 12.0, program: int = 0) -> tuple[np.ndarray, NoteArray]:
    """Plucked tones one after another, int16 (1, samples), and their notes."""
    rng = np.random.default_rng(seed)
    audio = rng.normal(0, 2e-4, int(seconds * RATE))
    rows = []
    onset = 0.2
    while onset < seconds - 0.8:
        length, pitch = float(rng.uniform(0.18, 0.45)), int(rng.integers(50, 76))
        time = np.arange(int(length * RATE)) / RATE
        tone = sum(np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * k * time) / k for k in (1, 2, 3, 4))
        begin = int(onset * RATE)
        audio[begin : begin + len(time)] += 0.15 * np.exp(-4 * time) * tone
        rows.append((onset, onset + length, pitch, program, 90, False))
        onset += length + float(rng.uniform(0.0, 0.15))
    return np.rint(audio * 32767).astype(np.int16)[None], np.array(rows, dtype=NOTE_DTYPE)


def moved(seconds: float) -> Change:
    def change(stems: np.ndarray, notes: NoteArray) -> tuple[np.ndarray, NoteArray]:
        notes = notes.copy()
        notes["onset"] += seconds
        notes["offset"] += seconds
        return stems, notes

    return change


def louder(stems: np.ndarray, notes: NoteArray) -> tuple[np.ndarray, NoteArray]:
    return np.clip(stems.astype(np.int32) * 20, -32768, 32767).astype(np.int16), notes


def pitched_up(stems: np.ndarray, notes: NoteArray) -> tuple[np.ndarray, NoteArray]:
    notes = notes.copy()
    notes["pitch"] += 48
    return stems, notes


FAULTS: dict[str, Change] = {
    "silent": lambda stems, notes: (stems * 0, notes),
    "clipped": louder,
    "notes after the end": lambda stems, notes: (stems[:, : 9 * RATE], notes),
    "no notes": lambda stems, notes: (stems, notes[:0]),
    "pitch out of range": pitched_up,
    "labels shifted": moved(0.08),
    "no sound": lambda stems, notes: (stems[:, :0], notes[:0]),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with six good songs and one for each fault, all in ``train``."""
    path = tmp_path_factory.mktemp("data") / "faulty"
    with StoreWriter(path, "faulty") as writer:
        for number, (name, change) in enumerate({**{f"good{i}": None for i in range(6)}, **FAULTS}.items()):
            stems, notes = tune(number)
            if change is not None:
                stems, notes = change(stems, notes)
            writer.add_song("train", name, stems, [[0]], ["mix"], notes)
    return path


def test_every_fault_is_found_and_nothing_else(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = check_splits(splits_of_store(SongStore.open(faulty)), progress=False)
    found = Counter((problem.kind, problem.place) for problem in report.problems)
    assert found == Counter((name, f"faulty/train/{name}") for name in FAULTS)
    (late,) = (problem.text for problem in report.problems if problem.kind == "labels shifted")
    assert abs(float(late.split()[3]) - 80) <= 10
    assert late.endswith("late")
    print_check(report, make_console())
    said = capsys.readouterr().out
    for name in FAULTS:
        assert WAYS_OUT[name][:40] in said.replace("\n", " ")
    assert f"problems: {len(FAULTS)}" in said


def test_a_clean_store_has_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StoreWriter(tmp_path / "good", "good") as writer:
        for number in range(3):
            stems, notes = tune(number)
            writer.add_song("train", f"song{number}", stems, [[0]], ["mix"], notes)
        stems, _ = tune(9)
        writer.add_song("train", "unknown", stems, [[]], ["mix"], notes[:0], {"unannotated": [129]})
        writer.add_view("fold", ["song0"])
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "good")), progress=False, processes=2)
    assert report.problems == []
    median, songs = report.shifts["good/train"]
    assert songs == 3
    assert median == pytest.approx(0, abs=10)
    print_check(report, make_console())
    said = capsys.readouterr().out
    assert "no problem found" in said
    assert " ms (median of 3 songs)" in said


def test_a_data_set_that_is_late_as_a_whole(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "late", "late") as writer:
        for number in range(4):
            stems, notes = moved(-0.03)(*tune(number))
            writer.add_song("train", f"song{number}", stems, [[0]], ["mix"], notes)
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "late")), progress=False)
    (problem,) = report.problems
    assert (problem.kind, problem.place) == ("labels shifted", "late/train")
    assert "early, the median of 4 songs" in problem.text


def test_stems_that_overload_or_do_not_sound(tmp_path: Path) -> None:
    stems, notes = tune(1)
    loud = np.rint(stems * (30000 / np.abs(stems).max())).astype(np.int16)
    other = notes.copy()
    other["program"] = 40
    with StoreWriter(tmp_path / "own", "own") as writer:
        two = np.concatenate([loud, loud])
        writer.add_song("train", "loud", two, [[0], [40]], ["a", "b"], np.concatenate([notes, other]))
        stems, notes = tune(2)
        other = notes.copy()
        other["program"] = 40
        two = np.concatenate([stems, stems * 0])
        writer.add_song("train", "mute", two, [[0], [40]], ["a", "b"], np.concatenate([notes, other]))
        (tmp_path / "own").mkdir(exist_ok=True)
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "own")), progress=False)
    assert {(problem.kind, problem.place) for problem in report.problems} == {
        ("overloaded", "own/train/loud"),
        ("notes in silence", "own/train/mute"),
    }
    assert report.songs["own/train/mute"].silent_notes == len(notes)


def test_a_voice_labelled_in_another_octave(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "own", "own") as writer:
        for octave in (-1, 0, 1):
            stems, notes = tune(4, 20.0, 100)
            notes["pitch"] += 12 * octave
            writer.add_song("train", f"octave{octave}", stems, [[100]], ["voice"], notes)
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "own")), progress=False)
    found = {
        problem.place[-2:]: problem.text for problem in report.problems if problem.kind == "another octave"
    }
    assert found == {
        "-1": "the voice sounds an octave above its notes, or these are not the notes of this recording",
        "e1": "the voice sounds an octave below its notes, or these are not the notes of this recording",
    }


def coded(audio: np.ndarray, container: str, coding: str) -> np.ndarray:
    file = io.BytesIO()
    soundfile.write(file, audio, RATE, format=container, subtype=coding)
    file.seek(0)
    return soundfile.read(file, dtype="float32")[0]


@pytest.mark.parametrize("change", ["level", "mp3", "ogg", "start", "noise", "rate"])
def test_the_same_recording_is_known_again(change: str) -> None:
    songs = [tune(number, 20.0)[0][0].astype(np.float32) / 32768 for number in range(4)]
    song = songs[0]
    again = {
        "level": lambda: 0.1 * song,
        "mp3": lambda: coded(song, "MP3", "MPEG_LAYER_III"),
        "ogg": lambda: coded(song, "OGG", "VORBIS"),
        "start": lambda: song[int(1.234 * RATE) :],
        "noise": lambda: song + np.random.default_rng(0).normal(0, 0.003, len(song)).astype(np.float32),
        "rate": lambda: resample_poly(resample_poly(song, 1, 2), 2, 1).astype(np.float32),
    }[change]()
    prints = [sound_prints(audio) for audio in (*songs, again)]
    assert [pair[:2] for pair in same_sound(prints, lambda first, second: True)] == [(0, 4)]


def test_the_same_piece_in_another_key_and_tempo_is_known_again() -> None:
    songs = [tune(number, 40.0)[1] for number in range(4)]
    again = songs[1].copy()
    again["pitch"] += 5
    again["onset"] = 0.3 + 1.1 * again["onset"]
    grams = [note_grams(notes) for notes in (*songs, again)]
    assert [pair[:2] for pair in same_notes(grams, lambda first, second: True)] == [(1, 4)]


def test_duplicates_across_splits(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "twice", "twice") as writer:
        for number in range(3):
            stems, notes = tune(number, 20.0)
            writer.add_song("train", f"song{number}", stems, [[0]], ["mix"], notes)
        stems, notes = tune(1, 20.0)
        writer.add_song("validation", "again", (stems // 3).astype(np.int16), [[0]], ["mix"], notes)
        writer.add_song("test", "other", *_stem(tune(7, 20.0)))
        writer.add_view("fold", ["song0"])
    store = SongStore.open(tmp_path / "twice")
    report = check_splits(splits_of_store(store), progress=False)
    (problem,) = report.problems
    assert (problem.kind, problem.place) == ("same sound in two splits", "twice/train/song1")
    assert "twice/validation/again" in problem.text
    # a run trains on train and scores the other two; a fold that is scored would be a fault, too
    assert len(check_splits(splits_of_presets(["twice"], tmp_path), progress=False).problems) == 1
    fold = [
        replace(item, role=str(item.split == "fold"), shares_songs=False) for item in splits_of_store(store)
    ]
    problems = check_splits(fold, progress=False).problems
    assert [problem.place for problem in problems] == ["twice/train/song0"]
    assert "twice/fold/song0" in problems[0].text


def test_a_recording_twice_in_a_split(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "twice", "twice") as writer:
        for name, number in (("a", 0), ("b", 1), ("copy", 0)):
            writer.add_song("train", name, *_stem(tune(number, 20.0)))
        writer.add_song("validation", "c", *_stem(tune(2, 20.0)))
        writer.add_view("all", ["a", "b", "copy"])
    splits = splits_of_presets(["twice"], tmp_path)
    (problem,) = check_splits(splits, progress=False).problems
    assert (problem.kind, problem.place) == ("same sound twice in a split", "twice/train/a")
    assert problem.text.startswith("is the recording of twice/train/copy (0%")
    whole = check_splits(splits_of_store(SongStore.open(tmp_path / "twice")), progress=False)
    assert [problem.place for problem in whole.problems] == ["twice/train/a"]  # not of the view again


def test_a_recording_in_two_data_sets_that_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, store in enumerate(("one", "two")):
        with StoreWriter(tmp_path / store, store) as writer:
            writer.add_song("train", "both", *_stem(tune(0, 20.0)))
            writer.add_song("train", "own", *_stem(tune(1 + number, 20.0)))
            writer.add_song("validation", "last", *_stem(tune(3 + number, 20.0)))
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    (problem,) = check_splits(splits_of_presets(["one", "two"], tmp_path), progress=False).problems
    assert (problem.kind, problem.place) == ("same sound in two data sets", "one/train/both")
    assert problem.text.startswith("is the recording of two/train/both")
    assert prepare.main(["check", "-d", "one", "two", "--processes", "1"]) == 1
    assert "leave one of the data sets out of -d" in capsys.readouterr().out
    for words in (["one"], ["-d", "one"]):
        assert prepare.main(["check", *words, "--processes", "1"]) == 0


def test_a_view_of_two_splits_does_not_hide_that_they_share_a_recording(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "twice", "twice") as writer:
        writer.add_song("train", "a", *_stem(tune(0, 20.0)))
        writer.add_song("validation", "copy", *_stem(tune(0, 20.0)))
        writer.add_view("all", ["a", "copy"])
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "twice")), progress=False)
    assert "same sound in two splits" in {problem.kind for problem in report.problems}


def _stem(song: tuple[np.ndarray, NoteArray]) -> tuple[np.ndarray, list[list[int]], list[str], NoteArray]:
    return song[0], [[0]], ["mix"], song[1]


def test_the_numbers_are_not_lost_for_want_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with StoreWriter(tmp_path / "data" / "good", "good") as writer:
        writer.add_split("train")
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert prepare.main(["check", "good", "--json", str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
    out = tmp_path / "new" / "found.json"
    assert prepare.main(["check", "good", "--json", str(out)]) == 1
    assert json.loads(out.read_text(encoding="utf-8"))["format"] == "amt-check"


def test_the_command(faulty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(faulty.parent))
    out = tmp_path / "found é.json"
    assert prepare.main(["check", "faulty", "-tk", "mc13_fsingle_vocal", "--json", str(out)]) == 1
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["format"] == "amt-check"
    kinds = Counter(problem["kind"] for problem in found["problems"])
    assert kinds["no class in the task"] == 1
    assert all(problem["way_out"] for problem in found["problems"])
    assert found["splits"]["faulty/train"]["songs"] == 6 + len(FAULTS)
    assert found["songs"]["faulty/train/silent"]["peak_db"] is None
    assert found["songs"]["faulty/train/labels shifted"]["shift_ms"] == pytest.approx(80, abs=10)
    with StoreWriter(tmp_path / "good", "good") as writer:
        for number in range(2):
            writer.add_song("train", f"song{number}", *_stem(tune(number)))
    assert prepare.main(["check", str(tmp_path / "good"), "--processes", "1"]) == 0


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["check"], "needs a data set or a preset"),
        (["check", "no such set"], "unknown"),
        (["check", "x", "--processes", "0"], "--processes"),
        (["check", "faulty", "-tk", "no such task"], "unknown task"),
    ],
)
def test_mistakes(
    argv: list[str],
    part: str,
    faulty: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(faulty.parent))
    assert prepare.main(argv) == 2
    assert part in capsys.readouterr().err


def test_a_song_that_cannot_be_read_is_named(faulty: Path, tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "own", "own") as writer:
        writer.add_song("train", "gone", *_stem(tune(1)))
    (tmp_path / "own" / "songs" / "gone" / "stems.npy").write_bytes(b"junk")
    (problem,) = check_splits(splits_of_store(SongStore.open(tmp_path / "own")), progress=False).problems
    assert problem.kind == "unreadable"
    assert "stems.npy" in problem.text


def test_label_shift_on_quickstart_songs(tmp_path: Path) -> None:
    """Known shifts come back within 10 ms, singing and bands with reverberation and noise included."""
    for package in ("music21", "symusic", "pretty_midi"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    from amt.quickstart.build import build_quickstart

    build_quickstart(tmp_path / "quickstart", progress=False, small=True, processes=1)
    store = SongStore.open(tmp_path / "quickstart")
    songs: list[Song] = [store.song(split, i) for split, count in store.splits.items() for i in range(count)]
    for song in songs:
        strength = onset_strength(song.mix())
        for known in (0.0, 80.0, -80.0, 200.0):
            found = estimate_shift(strength, song.notes["onset"] + known / 1000)
            assert found is not None
            assert found[0] == pytest.approx(known, abs=10), song.song_id
            assert found[1] > MIN_CLARITY
    report = check_splits(splits_of_store(store), progress=False)
    assert report.problems == []


def test_a_store_to_validate_with_nothing_and_its_programs_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stems, notes = tune(0)
    (tmp_path / "raw").mkdir()
    soundfile.write(tmp_path / "raw" / "song.wav", stems[0], RATE)
    write_midi(notes, tmp_path / "raw" / "song.mid")
    prepare_folder(tmp_path / "raw", tmp_path / "mine", "mine", StoreSettings(progress=False))
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "mine")), progress=False)
    assert [(item.kind, item.place) for item in report.problems] == [("empty split", "mine/validation")]
    assert report.problems[0].text == "holds no song; 1 song cannot fill 3 splits: add songs"
    print_check(report, make_console())
    assert f"notes by program: 0 Acoustic Grand Piano: {len(notes)}" in capsys.readouterr().out


def test_what_holds_of_several_splits_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StoreWriter(tmp_path / "mine", "mine") as writer:
        for number, split in enumerate(("train", "validation", "test")):
            stems, notes = tune(number)
            writer.add_song(split, f"song{number}", stems, [[0]], ["mix"], notes[:4])
        writer.add_view("fold", ["song0"])
    splits = splits_of_store(SongStore.open(tmp_path / "mine"))
    report = check_splits(splits, task="mc13_fsingle_vocal", progress=False)
    said = {item.place: item.text for item in report.problems if item.kind == "no class in the task"}
    assert set(said) == {"mine/test, mine/train, mine/validation", "mine/fold"}
    assert "none of the 12 notes" in said["mine/test, mine/train, mine/validation"]
    assert "none of the 4 notes" in said["mine/fold"]
    print_check(report, make_console())
    assert "not known: too few clear onsets" in capsys.readouterr().out  # uncut where nobody looks on


def test_a_song_whose_facts_are_damaged_is_named_and_the_others_are_looked_at(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "own", "own") as writer:
        for number in range(2):
            writer.add_song("train", f"song{number}", *_stem(tune(number)))
        writer.add_song("validation", "last", *_stem(tune(2)))
    (tmp_path / "own" / "songs" / "song0" / "song.json").write_text("{", encoding="utf-8")
    report = check_splits(splits_of_store(SongStore.open(tmp_path / "own")), progress=False)
    assert [(problem.kind, problem.place) for problem in report.problems] == [
        ("unreadable", "own/train/song0")
    ]
    assert "song.json" in report.problems[0].text
    assert len(report.songs) == 3
