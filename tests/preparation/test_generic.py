"""A folder of audio and MIDI becomes a store: pairs, damage, splits, the end of the audio."""

from __future__ import annotations

import re
import shutil
import struct
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.cli import prepare
from amt.data.store import SongStore
from amt.preparation.generic import Shares, StoreSettings, prepare_folder, split_of
from amt.preparation.write import NOTES_CUT, NOTES_DROPPED

AUDIO = Path(__file__).parent.parent / "data" / "audio"
QUIET = StoreSettings(progress=False)
ALL_TRAIN = StoreSettings(Shares(0, 0), progress=False)


def midi_bytes(*notes: tuple[float, float, int, int, int]) -> bytes:
    """A type 0 file, 480 ticks a quarter at 120 bpm; (onset, offset, pitch, program, channel)."""
    events = []
    for onset, offset, pitch, program, channel in notes:
        start, end = round(onset * 960), round(offset * 960)
        events.append((start, 1, bytes([0xC0 | channel, program])))
        events.append((start, 2, bytes([0x90 | channel, pitch, 90])))
        events.append((end, 0, bytes([0x80 | channel, pitch, 0])))
    body, now = b"", 0
    for tick, _, message in sorted(events):
        delta = tick - now
        now = tick
        data = bytes([delta & 0x7F])
        while delta := delta >> 7:
            data = bytes([0x80 | (delta & 0x7F)]) + data
        body += data + message
    body += b"\x00\xff\x2f\x00"
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, 480) + b"MTrk" + struct.pack(">I", len(body)) + body


MIDI = midi_bytes((0.1, 0.5, 60, 40, 0), (0.3, 0.4, 36, 0, 9))


def add_pair(folder: Path, name: str, *, suffix: str = ".wav", midi: bytes = MIDI, rate: int = 22050) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(name))
    soundfile.write(folder / f"{name}{suffix}", rng.uniform(-0.3, 0.3, (rate, 2)), rate)
    (folder / f"{name}.mid").write_bytes(midi)


def test_pairs_in_sub_folders_become_songs(tmp_path: Path) -> None:
    source = tmp_path / "raw é"
    add_pair(source, "one")
    add_pair(source / "sub folder", "one", suffix=".flac")
    add_pair(source, unicodedata.normalize("NFD", "é 100%"))
    shutil.move(source / "one.mid", source / "one.MIDI")
    (source / "readme.txt").write_text("nothing")
    (source / "lonely.mid").write_bytes(MIDI)
    soundfile.write(source / "alone.wav", np.zeros(10), 16000)
    report = prepare_folder(source, tmp_path / "out", "mine", ALL_TRAIN)
    assert report.splits == {"train": 3, "validation": 0, "test": 0}
    assert report.unpaired == {
        "lonely.mid": "no lonely.wav (flac, mp3, ogg)",
        "alone.wav": "no alone.mid",
    }
    store = SongStore.open(tmp_path / "out")
    store.check()
    assert store.splits == {"train": 3, "validation": 0, "test": 0}
    assert sorted(store.index("train")["song_id"]) == ["one", "sub folder__one", "é 100%"]
    song = store.song("train", 0)
    assert song.num_samples == 16000
    assert song.stem_names == ["mix"]
    assert song.stem_programs == [[40, 128]]
    assert song.notes["pitch"].tolist() == [60, 36]
    assert song.notes["onset"] == pytest.approx([0.1, 0.3], abs=0.002)
    assert song.notes["is_drum"].tolist() == [False, True]


def test_preparing_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        add_pair(tmp_path / "raw", name)
    for out in ("x", "y"):
        prepare_folder(tmp_path / "raw", tmp_path / out, "mine", QUIET)
    files = sorted(path.relative_to(tmp_path / "x") for path in (tmp_path / "x").rglob("*") if path.is_file())
    assert files == sorted(p.relative_to(tmp_path / "y") for p in (tmp_path / "y").rglob("*") if p.is_file())
    for file in files:
        assert (tmp_path / "x" / file).read_bytes() == (tmp_path / "y" / file).read_bytes()


def test_flac_holds_the_same_samples(tmp_path: Path) -> None:
    add_pair(tmp_path / "raw", "song")
    stores = []
    for flac in (False, True):
        out = tmp_path / str(flac)
        prepare_folder(tmp_path / "raw", out, "mine", replace(ALL_TRAIN, flac=flac))
        stores.append(SongStore.open(out))
    assert [store.coding for store in stores] == ["npy", "flac"]
    np.testing.assert_array_equal(*(store.song("train", 0).stems for store in stores))


def test_broken_files_are_counted_and_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "raw"
    add_pair(source, "good")
    add_pair(source, "bad_midi", midi=b"MThd\x00")
    add_pair(source, "empty_midi", midi=b"")
    add_pair(source, "bad_audio")
    (source / "bad_audio.wav").write_bytes(b"RIFF nothing")
    add_pair(source, "no_samples")
    shutil.copy(AUDIO / "w07_no_frames.wav", source / "no_samples.wav")
    add_pair(source, "nan")
    shutil.copy(AUDIO / "w05_float32_nan_inf.wav", source / "nan.wav")
    report = prepare_folder(source, tmp_path / "out", "mine", replace(ALL_TRAIN, progress=True))
    assert set(report.broken) == {"bad_midi", "empty_midi", "bad_audio", "no_samples"}
    assert all(name in reason for name, reason in report.broken.items())
    assert report.splits["train"] == 2
    assert any("replaced by 0" in remark for remark in report.remarks)
    printed = capsys.readouterr().err
    assert "left out: 4" in printed
    assert "bad_audio" in printed
    store = SongStore.open(tmp_path / "out")
    store.check()
    assert store.splits["train"] == 2


def test_notes_stay_inside_the_audio(tmp_path: Path) -> None:
    """Case D31."""
    source = tmp_path / "raw"
    source.mkdir()
    shutil.copy(AUDIO / "w31_audio_1s.wav", source / "d31.wav")
    (source / "d31.mid").write_bytes(midi_bytes((0.0, 5.0, 60, 0, 0), (5.0, 5.5, 62, 0, 0)))
    report = prepare_folder(source, tmp_path / "out", "mine", ALL_TRAIN)
    assert report.counts == {NOTES_DROPPED: 1, NOTES_CUT: 1}
    notes = SongStore.open(tmp_path / "out").song("train", 0).notes
    assert notes["pitch"].tolist() == [60]
    assert notes["offset"].tolist() == [1.0]


def test_two_audio_files_of_one_name_are_one_song_and_a_remark(tmp_path: Path) -> None:
    add_pair(tmp_path / "raw", "song")
    add_pair(tmp_path / "raw", "song", suffix=".flac")
    report = prepare_folder(tmp_path / "raw", tmp_path / "out", "mine", ALL_TRAIN)
    assert report.splits["train"] == 1
    assert any("song.wav" in remark for remark in report.remarks)


def test_clear_errors_leave_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "raw"
    with pytest.raises(ValueError, match="is no folder"):
        prepare_folder(source, tmp_path / "out", "mine", QUIET)
    source.mkdir()
    (source / "lonely.mid").write_bytes(MIDI)
    with pytest.raises(ValueError, match=r"no pair .* \(1 file without a partner\)"):
        prepare_folder(source, tmp_path / "out", "mine", QUIET)
    add_pair(source, "bad", midi=b"junk")
    with pytest.raises(ValueError, match=r"raw: no song can be read\n  bad: "):
        prepare_folder(source, tmp_path / "out", "mine", QUIET)
    with pytest.raises(ValueError, match="leave something for training"):
        prepare_folder(source, tmp_path / "out", "mine", StoreSettings(Shares(0.6, 0.4)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]
    add_pair(source, "good")
    prepare_folder(source, tmp_path / "out", "mine", QUIET)
    with pytest.raises(ValueError, match="exists already"):
        prepare_folder(source, tmp_path / "out", "mine", QUIET)
    prepare_folder(source, tmp_path / "out", "mine", replace(QUIET, overwrite=True))


def test_the_split_is_a_stable_hash() -> None:
    names = [f"song {i}" for i in range(4000)]
    splits = [split_of(name, 0, 0.1, 0.2) for name in names]
    assert splits.count("test") / 4000 == pytest.approx(0.2, abs=0.02)
    assert splits.count("validation") / 4000 == pytest.approx(0.1, abs=0.02)
    assert splits == [split_of(name, 0, 0.1, 0.2) for name in names]
    assert splits != [split_of(name, 1, 0.1, 0.2) for name in names]
    assert split_of("é", 3, 0.5, 0) == split_of(unicodedata.normalize("NFD", "é"), 3, 0.5, 0)


def test_transcriptions_beside_the_songs_are_no_songs(tmp_path: Path) -> None:
    add_pair(tmp_path / "in", "one")
    add_pair(tmp_path / "in", "one_transcribed")
    report = prepare_folder(tmp_path / "in", tmp_path / "out", "mine", ALL_TRAIN)
    assert sum(report.splits.values()) == 1
    assert any("one_transcribed.mid: left out" in line for line in report.remarks)


def test_hidden_folders_are_passed_over_and_links_followed_once(tmp_path: Path) -> None:
    source = tmp_path / "in"
    add_pair(source, "one")
    add_pair(source / ".ipynb_checkpoints", "hidden")
    add_pair(tmp_path / "elsewhere" / "v1.0", "linked")
    (source / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "v1.0" / "back").symlink_to(source)
    report = prepare_folder(source, tmp_path / "out", "mine", ALL_TRAIN)
    assert not report.unpaired
    assert SongStore.open(tmp_path / "out").index("train")["song_id"].tolist() == [
        "link__v1.0__linked",
        "one",
    ]


def test_name_of_a_preset_is_refused(tmp_path: Path) -> None:
    add_pair(tmp_path / "in", "one")
    with pytest.raises(ValueError, match="belongs to a data preset"):
        prepare_folder(tmp_path / "in", tmp_path / "quickstart", "quickstart", QUIET)
    assert not (tmp_path / "quickstart").exists()


def test_few_songs_choose_a_seed_that_fills_every_split_and_keep_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "raw"
    names = [f"song{number}" for number in range(4)]
    for name in names:
        add_pair(source, name)
    report = prepare_folder(source, tmp_path / "out", "mine")
    found = re.search(r"dealt out to the splits with --seed (\d+)\n", capsys.readouterr().err)
    assert found is not None
    seed = int(found[1])
    assert seed > 0
    assert min(report.splits.values()) == 1
    add_pair(source, "more")  # the others stay where they were, although a smaller seed may do now
    overwrite = StoreSettings(overwrite=True, progress=False)
    prepare_folder(source, tmp_path / "out", "mine", overwrite)
    store = SongStore.open(tmp_path / "out")
    for name in [*names, "more"]:
        assert name in store.index(split_of(name, seed, 0.1, 0.1))["song_id"].tolist()
    assert store.header["dealt_out"] == {"validation": 0.1, "test": 0.1, "seed": seed}


def test_empty_splits_are_named_with_a_seed_that_fills_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "raw"
    for name in ("song0", "song1"):
        add_pair(source, name)
    report = prepare_folder(source, tmp_path / "one", "mine")
    said = capsys.readouterr().err
    assert report.splits == {"train": 2, "validation": 0, "test": 0}
    assert "no song fell into validation and test; 2 songs cannot fill 3 splits" in said
    found = re.search(r"prepare again with --overwrite --test-share 0 --seed (\d+)\n", said)
    assert found is not None
    report = prepare_folder(
        source, tmp_path / "both", "mine", StoreSettings(Shares(test=0, seed=int(found[1])))
    )
    assert report.splits == {"train": 1, "validation": 1, "test": 0}
    capsys.readouterr()
    prepare_folder(source, tmp_path / "two", "mine", StoreSettings(Shares(test=0, seed=0)))
    found = re.search(r"no song fell into validation; .* --overwrite --seed (\d+)", capsys.readouterr().err)
    assert found is not None
    report = prepare_folder(
        source, tmp_path / "three", "mine", StoreSettings(Shares(test=0, seed=int(found[1])))
    )
    assert report.splits == {"train": 1, "validation": 1, "test": 0}
    assert "no song" not in capsys.readouterr().err


def test_the_report_says_what_plays_the_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A melody whose file names no program is a piano: who prepares it is told before a run refuses it."""
    source = tmp_path / "raw"
    add_pair(source, "one", midi=midi_bytes((0.1, 0.5, 60, 0, 0), (0.5, 0.9, 62, 0, 0)))
    prepare_folder(source, tmp_path / "piano", "mine", StoreSettings(Shares(0, 0)))
    said = capsys.readouterr().err
    assert "notes by program: 0 Acoustic Grand Piano: 2; the voice is program 100" in said
    assert "see --program" in said
    prepare_folder(source, tmp_path / "sung", "mine", StoreSettings(Shares(0, 0)), program=100)
    assert "notes by program: 100 Singing Voice: 2\n" in capsys.readouterr().err
    add_pair(source, "two", midi=midi_bytes((0.1, 0.5, 60, 0, 0), (0.5, 0.9, 40, 33, 1)))
    prepare_folder(source, tmp_path / "band", "mine", StoreSettings(Shares(0, 0)))
    said = capsys.readouterr().err
    assert "0 Acoustic Grand Piano: 3, 33 Electric Bass (finger): 1\n" in said


def test_the_last_line_says_how_many_songs_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    source = tmp_path / "raw"
    for name in ("one", "two", "three"):
        add_pair(source, name)
    (source / "three.wav").write_bytes(b"RIFF nothing")
    soundfile.write(source / "tune 4.wav", np.zeros(10), 16000)
    assert prepare.main(["folder", str(source), "mine"]) == 0
    said = capsys.readouterr()
    assert "  tune 4.wav: no tune 4.mid\n" in said.err
    assert "; 1 of 3 songs left out; 1 file without a partner; " in said.out.splitlines()[-1]
    shutil.rmtree(tmp_path / "data")
    for name in ("three.wav", "three.mid", "tune 4.wav"):
        (source / name).unlink()
    assert prepare.main(["folder", str(source), "mine"]) == 0
    assert "left out" not in capsys.readouterr().out
