"""The published layout becomes stores: a made-up folder of it."""

from __future__ import annotations

import json
import pickle
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.cli.prepare import main
from amt.data.store import SongStore
from amt.preparation import building
from amt.preparation.import_yourmt3 import find_indexes, import_yourmt3, read_pickled_array

RATE = 16000


@dataclass
class Note:
    is_drum: bool
    program: int
    onset: float
    offset: float
    pitch: int
    velocity: int


def save(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, value, allow_pickle=True)  # type: ignore[arg-type]


def index(home: Path, name: str, entries: list[dict[str, object]]) -> None:
    folder = home / "yourmt3_indexes"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_file_list.json").write_text(json.dumps({str(i): e for i, e in enumerate(entries)}))


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Slakh with stems (two splits), MusicNet with overlapping splits, MIR-ST500 with accompaniment."""
    home = tmp_path / "old data"
    time = np.arange(RATE) / RATE
    tone = 0.25 * np.sin(2 * np.pi * 440 * time)
    entries = []
    for number in range(3):
        folder = home / "slakh2100_yourmt3_16k" / "train" / f"Track0000{number}"
        stem = {
            "slakh_id": f"Track0000{number}",
            "program": np.array([0, 33, 0]),
            "is_drum": np.array([0, 0, 1]),
            "n_frames": RATE,
            "audio_array": np.stack([tone, 0.5 * tone, 0 * tone]).astype(np.float16),
        }
        save(folder / f"Track0000{number}_stem.npy", stem)
        notes = [
            Note(False, 0, np.float64(0.1), 0.4, np.int64(69), 1),  # type: ignore[arg-type]
            Note(False, 33, 0.2, 0.2, 40, 1),
            Note(True, 0, 0.3, 0.31, 36, 1),
            Note(False, 0, 5.0, 6.0, 70, 1),
        ]
        save(folder / f"Track0000{number}_notes.npy", {"slakh_id": "x", "program": [0, 33], "notes": notes})
        start = f"../../data/slakh2100_yourmt3_16k/train/Track0000{number}/Track0000{number}"
        entries.append(
            {
                "mtrack_id": f"Track0000{number}",
                "n_frames": RATE,
                "stem_file": f"{start}_stem.npy",
                "mix_audio_file": f"{start}_mix.wav",
                "notes_file": (f"{start}_notes.npy").replace("/", "\\")
                if number == 1
                else f"{start}_notes.npy",
                "program": [0, 33, 0],
                "is_drum": [0, 0, 1],
            }
        )
    index(home, "slakh_train", entries[:2])
    index(home, "slakh_validation", entries[2:])
    entries = []
    for number in range(3):
        folder = home / "musicnet_yourmt3_16k"
        folder.mkdir(exist_ok=True)
        soundfile.write(folder / f"{number}.wav", tone, RATE)
        save(folder / f"{number}_notes.npy", {"program": [41], "notes": [Note(False, 41, 0.1, 0.9, 69, 1)]})
        start = f"data/musicnet_yourmt3_16k/{number}"
        entries.append(
            {
                "n_frames": 9 * RATE,
                "stem_file": None,
                "mix_audio_file": f"{start}.wav",
                "notes_file": f"{start}_notes.npy",
                "program": [41],
                "is_drum": [0],
            }
        )
    index(home, "musicnet_train_mt3", entries[:2])
    index(home, "musicnet_train_thickstun", entries[1:])
    index(home, "musicnet_test_mt3_acoustic", entries[2:])
    folder = home / "mir_st500_yourmt3_16k"
    save(
        folder / "1_stem.npy",
        {"program": [100, 129], "is_drum": [0, 0], "audio_array": np.stack([tone, tone]).astype(np.float16)},
    )
    save(folder / "1_notes.npy", {"program": [100, 129], "notes": [Note(False, 100, 0.1, 0.9, 60, 1)]})
    entry = {
        "n_frames": RATE,
        "stem_file": "mir_st500_yourmt3_16k/1_stem.npy",
        "notes_file": "mir_st500_yourmt3_16k/1_notes.npy",
        "program": [100, 129],
    }
    index(home, "mir_st500_train_stem", [entry])
    return home


def test_stores_of_the_published_layout(published: Path, tmp_path: Path) -> None:
    report = import_yourmt3(published, tmp_path / "new", progress=False)
    assert report.stores == {
        "slakh": {"train": 2, "validation": 1},
        "musicnet": {"train_mt3": 2, "train_thickstun": 2, "test_mt3_acoustic": 1},
        "mir_st500": {"train_stem": 1},
    }
    slakh = SongStore.open(tmp_path / "new" / "slakh")
    song = slakh.song("train", 1)
    assert song.stem_programs == [[0], [33], [128]]
    assert song.notes[["onset", "pitch", "program", "is_drum"]].tolist() == [
        (0.1, 69, 0, False),
        (0.2, 40, 33, False),
        (0.3, 36, 128, True),
    ]
    assert song.notes["offset"][1] == pytest.approx(0.21)
    assert np.abs(song.stems[0] / 32768).max() == pytest.approx(0.25, abs=1e-3)
    assert report.counts["notes after the end of the sound, dropped"] == 3
    assert report.counts["songs whose length is not that of the index"] == 3
    musicnet = SongStore.open(tmp_path / "new" / "musicnet")
    assert musicnet.is_view("train_mt3")
    assert musicnet.splits == {"songs": 3, "test_mt3_acoustic": 1, "train_mt3": 2, "train_thickstun": 2}
    assert musicnet.song("train_mt3", 1).song_id == musicnet.song("train_thickstun", 0).song_id
    for split in musicnet.splits:
        assert musicnet.content_hash(split) == musicnet.recorded_hash(split)
    voice = SongStore.open(tmp_path / "new" / "mir_st500").song("train_stem", 0)
    assert voice.stem_programs == [[100], []]
    assert voice.unannotated == [129]
    again = import_yourmt3(published, tmp_path / "new", progress=False)
    assert sorted(again.there) == ["mir_st500", "musicnet", "slakh"]


def test_all_problems_are_listed_at_once_and_can_be_skipped(published: Path, tmp_path: Path) -> None:
    (published / "slakh2100_yourmt3_16k" / "train" / "Track00000" / "Track00000_stem.npy").unlink()
    (published / "musicnet_yourmt3_16k" / "2.wav").unlink()
    (published / "yourmt3_indexes" / "mir_st500_test_file_list.json").write_text('{"0": {"n_frames": NaN}}')
    (published / "yourmt3_indexes" / "maestro_train_file_list.json").write_text('{"0": {}, "0": {}}')
    (published / "yourmt3_indexes" / "maps_test_file_list.json").write_text("{}")
    (published / "yourmt3_indexes" / "egmd_test_file_list.json").write_text('{"0": {"n_frames": 5}}')
    with pytest.raises(ValueError, match="problem") as error:
        import_yourmt3(published, tmp_path / "new", progress=False)
    for expected in (
        "Track00000_stem.npy is missing",
        "2.wav is missing",
        "NaN is not a JSON number",
        "occurs twice",
        "lists no song",
        "has no notes_file",
        "--skip-broken",
    ):
        assert expected in str(error.value)
    assert not (tmp_path / "new").exists()
    report = import_yourmt3(published, tmp_path / "new", skip_broken=True, progress=False)
    assert report.stores["slakh"] == {"train": 1, "validation": 1}
    assert set(report.stores) == {"slakh", "musicnet", "mir_st500"}
    for name in ("maestro", "maps", "egmd"):  # nothing of them is left; the others are made all the same
        assert report.skipped[name] == f"{name}: no song can be read"
    with pytest.raises(ValueError, match="no data set has a song that can be read"):
        import_yourmt3(published, tmp_path / "none", only=("maps",), skip_broken=True, progress=False)
    with pytest.raises(ValueError, match="did you mean 'slakh'"):
        import_yourmt3(published, tmp_path / "new", only=("slak",), progress=False)
    with pytest.raises(ValueError, match="no yourmt3_indexes"):
        find_indexes(tmp_path / "new")


def test_a_damaged_record_costs_its_song_alone(published: Path, tmp_path: Path) -> None:
    folder = published / "slakh2100_yourmt3_16k" / "train"
    save(folder / "Track00000" / "Track00000_notes.npy", {"program": [0], "notes": [3.5]})
    stem = {"program": [0], "is_drum": [0], "audio_array": np.ones((1, RATE), np.int16)}
    save(folder / "Track00001" / "Track00001_stem.npy", stem)
    report = import_yourmt3(published, tmp_path, only=("slakh",), progress=False)
    assert report.stores == {"slakh": {"train": 0, "validation": 1}}
    assert "a record that is no note" in report.skipped["slakh/train__Track00000__Track00000"]
    assert "no audio_array of real numbers" in report.skipped["slakh/train__Track00001__Track00001"]
    SongStore.open(tmp_path / "slakh").check()


def test_a_song_listed_with_other_facts_is_another_song(published: Path, tmp_path: Path) -> None:
    start = "data/musicnet_yourmt3_16k/0"
    for split, program in (("a", 41), ("b", 42), ("c", 43)):
        entry = {"mix_audio_file": f"{start}.wav", "notes_file": f"{start}_notes.npy", "program": [program]}
        index(published, f"musicnet_{split}", [{**entry, "n_frames": RATE}])
    report = import_yourmt3(published, tmp_path, only=("musicnet",), progress=False)
    assert report.skipped == {}
    assert SongStore.open(tmp_path / "musicnet").splits["c"] == 1


def test_paths_of_other_systems(published: Path, tmp_path: Path) -> None:
    """Cases D48 and D50: a drive, backslashes, and letters that are composed otherwise than the file's."""
    folder = published / "musicnet_yourmt3_16k"
    for form, name in (("NFC", "chanté"), ("NFD", "größe")):
        soundfile.write(folder / unicodedata.normalize(form, f"{name}.wav"), np.ones(RATE) / 4, RATE)
    written = (unicodedata.normalize("NFD", "chanté"), unicodedata.normalize("NFC", "größe"))
    start = "D:\\data\\musicnet_yourmt3_16k\\"
    entries = [{"mix_audio_file": f"{start}{n}.wav", "notes_file": f"{start}0_notes.npy"} for n in written]
    index(published, "musicnet_odd", [{**entry, "program": [41]} for entry in entries])
    report = import_yourmt3(published, tmp_path, only=("musicnet",), progress=False)
    assert report.stores["musicnet"]["odd"] == 2


def test_a_program_that_is_no_number_is_a_problem(published: Path, tmp_path: Path) -> None:
    start = "data/musicnet_yourmt3_16k/0"
    entry = {"mix_audio_file": f"{start}.wav", "notes_file": f"{start}_notes.npy", "program": ["x"]}
    index(published, "musicnet_odd", [entry])
    with pytest.raises(ValueError, match=r"musicnet_odd_file_list.json, entry 0: program is \['x'\]"):
        import_yourmt3(published, tmp_path, progress=False)


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return (os.getcwd, ())


def test_a_pickle_that_wants_more_than_data_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", {"notes": [Evil()]})
    with pytest.raises(ValueError, match=r"a\.npy.*getcwd"):
        read_pickled_array(tmp_path / "a.npy")
    for number, damage in enumerate((b"", b"\x93NUMPY", pickle.dumps({}))):
        file = tmp_path / f"{number}.npy"
        file.write_bytes(damage)
        with pytest.raises(ValueError, match=f"{number}.npy"):
            read_pickled_array(file)


def test_the_command(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "home"))
    assert main(["import-yourmt3", str(published), "--only", "slakh", "--flac"]) == 0
    store = SongStore.open(tmp_path / "home" / "slakh")
    assert store.coding == "flac"
    assert store.content_hash("train") == store.recorded_hash("train")
    assert "-d" in capsys.readouterr().out
    assert main(["import-yourmt3", str(tmp_path / "nothing")]) == 2
    assert main(["import-yourmt3", "--help"]) == 0


def test_an_import_that_was_broken_off_goes_on_and_keeps_the_order_of_the_lists(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "data/musicnet_yourmt3_16k"
    entries = [
        {"mix_audio_file": f"{start}/{n}.wav", "notes_file": f"{start}/{n}_notes.npy", "n_frames": 9 * RATE}
        | {"stem_file": None, "program": [41], "is_drum": [0]}
        for n in (2, 0, 1)
    ]
    index(published, "musicnet_back", entries)
    read: list[str] = []
    call = building._Job.__call__

    def job(self: building._Job) -> building._Outcome:
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(self.plan.song_id)
        return call(self)

    monkeypatch.setattr(building._Job, "__call__", job)
    with pytest.raises(KeyboardInterrupt):
        import_yourmt3(published, tmp_path, only=("musicnet",), processes=1, progress=False)
    assert not (tmp_path / "musicnet").exists()
    monkeypatch.setattr(building._Job, "__call__", call)
    import_yourmt3(published, tmp_path, only=("musicnet",), processes=2, progress=False)
    store = SongStore.open(tmp_path / "musicnet")
    assert store.index("back")["song_id"].tolist() == ["2", "0", "1"]
    assert store.index("train_mt3")["song_id"].tolist() == ["0", "1"]
    store.check()
