"""Songs in stems: names say what they hold, MIDI beside them says more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.preparation.generic import Shares, StoreSettings, prepare_folder
from amt.preparation.stem_names import programs_of_name
from amt.preparation.write import PreparationReport

VOICE = [Note(0.1, 0.5, 60), Note(0.6, 0.9, 62)]
DRUMS = [Note(0.2, 0.21, 36, 128, True)]
BASS = [Note(0.2, 0.8, 40, 33)]


def sound(path: Path, seconds: float = 1.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    level = (len(path.stem) % 7 + 1) / 20
    soundfile.write(path, level * np.sin(np.arange(int(16000 * seconds)) / 9), 16000)


def prepare(source: Path, out: Path, **rest: object) -> tuple[PreparationReport, SongStore]:
    report = prepare_folder(
        source,
        out,
        "mine",
        StoreSettings(Shares(0, 0), progress=False),
        stems=True,
        **rest,  # type: ignore[arg-type]
    )
    store = SongStore.open(out)
    store.check()
    return report, store


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("vocals", (100,)),
        ("Lead Vocals_02", (100,)),
        ("backing-vocals", (101,)),
        ("DRUMS", (128,)),
        ("03 bass", tuple(range(32, 40))),
        ("Acoustic Bass", (32, 35)),
        ("violin 2", (40,)),
        ("p40", (40,)),
        ("stem_program_128", (128,)),
        ("noise", ()),
        ("other", None),
        ("01", None),
    ],
)
def test_what_a_name_says(name: str, programs: tuple[int, ...] | None) -> None:
    assert programs_of_name(name) == programs


def test_a_midi_file_for_each_stem(tmp_path: Path) -> None:
    song = tmp_path / "raw" / "first song"
    for name in ("vocals", "drums", "other"):
        sound(song / f"{name}.wav", 0.9 if name == "drums" else 1.0)
    write_midi(VOICE, song / "vocals.mid")  # of program 0, as melodies often are
    write_midi(DRUMS, song / "drums.mid")
    report, store = prepare(tmp_path / "raw", tmp_path / "out")
    assert not report.broken
    assert not report.unpaired
    found = store.song("train", 0)
    assert found.song_id == "first song"
    assert dict(zip(found.stem_names, found.stem_programs, strict=True)) == {
        "vocals": [100],
        "drums": [128],
        "other": [],
    }
    assert found.unannotated == [129]  # something is heard that nobody wrote down
    assert found.notes["program"].tolist() == [100, 128, 100]
    assert found.num_samples == 16000
    drums = found.stem_names.index("drums")
    assert found.stems[drums, 14500:].max() == 0
    assert found.stems[drums, :14000].max() > 0


def test_a_second_file_of_a_stem_is_said(tmp_path: Path) -> None:
    song = tmp_path / "raw" / "song"
    for ending in ("flac", "wav"):
        sound(song / f"vocals.{ending}")
    write_midi(VOICE, song / "vocals.mid")
    report, store = prepare(tmp_path / "raw", tmp_path / "out")
    assert list(store.song("train", 0).stem_names) == ["vocals"]
    assert len(report.remarks) == 1
    assert report.remarks[0].startswith(f"{song / 'vocals.wav'}: left out")


def test_one_midi_file_for_all_stems(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for folder in ("in", "beside"):
        for name in ("e-bass", "drums", "accompaniment", "noise"):
            sound(raw / folder / f"{name}.wav")
    notes = [*DRUMS, *BASS, Note(0.3, 0.6, 70, 5), Note(0.3, 0.6, 74, 48)]
    write_midi(notes, raw / "in" / "all of it.mid")
    write_midi(notes, raw / "beside.mid")
    report, store = prepare(raw, tmp_path / "out")
    assert report.splits == {"train": 2, "validation": 0, "test": 0}
    for number in range(2):
        song = store.song("train", number)
        assert dict(zip(song.stem_names, song.stem_programs, strict=True)) == {
            "e-bass": [33],
            "drums": [128],
            "accompaniment": [5, 48],
            "noise": [],
        }
        assert song.unannotated == []


def test_stems_without_notes_are_heard_but_not_annotated(tmp_path: Path) -> None:
    song = tmp_path / "raw" / "song"
    for name in ("vocals", "bass", "noise"):
        sound(song / f"{name}.wav")
    write_midi(VOICE, song / "vocals.mid")
    _, store = prepare(tmp_path / "raw", tmp_path / "out")
    assert store.song("train", 0).unannotated == list(range(32, 40))
    assert store.song("train", 0).stem_programs == [[], [], [100]]


def test_transcriptions_are_no_notes_and_folders_may_have_dots(tmp_path: Path) -> None:
    source = tmp_path / "in"
    sound(source / "song 1.5" / "vocals.wav")
    write_midi(VOICE, source / "song 1.5.mid")
    write_midi(DRUMS, source / "song 1.5" / "vocals_transcribed.mid")
    write_midi(BASS, source / "song 1.mid")
    report, store = prepare(source, tmp_path / "out")
    assert store.song("train", 0).notes["pitch"].tolist() == [60, 62]
    assert list(report.unpaired) == ["song 1.mid"]
    assert any("vocals_transcribed.mid: left out" in line for line in report.remarks)


def test_notes_that_fit_no_stem_are_said(tmp_path: Path) -> None:
    song = tmp_path / "raw" / "song"
    for name in ("one", "two"):
        sound(song / f"{name}.wav")
    write_midi(BASS, song / "song.mid")
    write_midi(VOICE, tmp_path / "raw" / "alone.mid")
    sound(tmp_path / "raw" / "good" / "piano.wav")
    write_midi(VOICE, tmp_path / "raw" / "good" / "x.mid")
    sound(tmp_path / "raw" / "double" / "piano.wav")
    for name in ("x", "y"):
        write_midi(VOICE, tmp_path / "raw" / "double" / f"{name}.mid")
    report, store = prepare(tmp_path / "raw", tmp_path / "out")
    assert "no stem holds the notes of program 33" in report.broken["song"]
    assert "x.mid, y.mid" in report.broken["double"]
    assert report.unpaired == {"alone.mid": "no stem beside it, nor a folder of stems of its name"}
    assert store.splits["train"] == 1


def test_program_and_label_shift(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    sound(raw / "a" / "x.wav")
    write_midi([*VOICE, *DRUMS], raw / "a" / "x.mid")
    _, store = prepare(raw, tmp_path / "plain")
    before = store.song("train", 0).notes
    _, store = prepare(raw, tmp_path / "moved", program=100, label_shift_ms=-150.0)
    after = store.song("train", 0).notes
    assert after["program"].tolist() == [100, 128, 100]
    assert after["onset"] == pytest.approx(np.maximum(before["onset"] - 0.15, 0), abs=1e-9)
    assert after["offset"] == pytest.approx(before["offset"] - 0.15, abs=1e-9)
    _, store = prepare(raw, tmp_path / "drums", program=128)
    assert store.song("train", 0).notes["is_drum"].all()
    with pytest.raises(ValueError, match="program 129"):
        prepare(raw, tmp_path / "none", program=129)


def test_a_folder_without_stems_says_how_they_lie(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(ValueError, match=r"no folder of stems .*vocals\.wav"):
        prepare(tmp_path / "raw", tmp_path / "out")
