"""The frame of the data sets: parallel, resumed, counted, whole or not there."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml

from amt.cli.prepare import main
from amt.config.presets import SINGLE_PRESETS
from amt.data import store_writer
from amt.data.store import SongStore, StoreWriter
from amt.notes import Note
from amt.preparation import building
from amt.preparation.corpora import CORPORA
from amt.preparation.corpora.corpus import Corpus, Found, count_songs, get_corpus, prepare_corpus
from amt.preparation.corpora.guitarset import ShiftedSound
from amt.preparation.corpora.mir1k import notes_of_pitch
from amt.preparation.corpora.singers import read_note_table
from amt.preparation.plan import plan_splits

HEADER = "split,midi_filename,audio_filename\n"


def maestro(files: Any, counts: dict[str, int]) -> Path:
    """A MAESTRO of so many songs."""
    lines = []
    for split, count in counts.items():
        for number in range(count):
            name = f"2004/{split}{number}"
            files.sound(f"{name}.wav", seconds=0.6, rate=16000, pitch=60 + number)
            files.midi(f"{name}.midi", [Note(0.1, 0.4, 60 + number)])
            lines.append(f"{split},{name}.midi,{name}.wav\n")
    files.text("maestro-v3.0.0.csv", HEADER + "".join(lines))
    return Path(files.root)


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return whole.hexdigest()


def test_processes_change_nothing_and_two_runs_give_the_same_bytes(files: Any, tmp_path: Path) -> None:
    source = maestro(files, {"train": 3, "validation": 1, "test": 1})
    for name, processes in (("one", 1), ("two", 2)):
        prepare_corpus("maestro", source, tmp_path / name, processes=processes, progress=False)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    store = SongStore.open(tmp_path / "two")
    for split in store.splits:
        assert store.content_hash(split) == store.recorded_hash(split)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["index", "songs", "store.json"]
    assert not list(tmp_path.glob(".*.unfinished"))


def test_a_run_that_was_broken_off_goes_on(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = maestro(files, {"train": 4, "test": 1})
    out = tmp_path / "maestro"
    read: list[str] = []
    call = building._Job.__call__

    def job(self: Any) -> Any:
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(self.plan.song_id)
        return call(self)

    monkeypatch.setattr(building._Job, "__call__", job)
    with pytest.raises(KeyboardInterrupt):
        prepare_corpus("maestro", source, out, processes=1, progress=False)
    assert not out.exists()
    monkeypatch.setattr(building._Job, "__call__", call)
    assert len(list((tmp_path / ".maestro.unfinished" / "store" / "songs").iterdir())) == 2
    # A song whose file has changed since is read again.
    files.sound("2004/train0.wav", seconds=0.9, rate=16000)
    report = prepare_corpus("maestro", source, out, processes=1, progress=False)
    assert report.reused == 1
    store = SongStore.open(out)
    store.check()
    assert store.splits == {"train": 4, "validation": 0, "test": 1}
    assert store.song("train", 0).num_samples == 14400
    assert not (tmp_path / ".maestro.unfinished").exists()


def test_what_is_half_written_is_written_again(files: Any, tmp_path: Path) -> None:
    source = maestro(files, {"train": 2})
    (files.root / "2004" / "train1.wav").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="1 of 2 songs cannot be read"):
        prepare_corpus("maestro", source, tmp_path / "maestro", processes=1, progress=False)
    work = tmp_path / ".maestro.unfinished"
    (work / "done" / "2004__train0.json").unlink()  # as when the process died between two steps
    (work / "store" / "songs" / "left over").mkdir()
    files.sound("2004/train1.wav", seconds=0.6, rate=16000)
    report = prepare_corpus("maestro", source, tmp_path / "maestro", processes=1, progress=False)
    assert report.reused == 0
    store = SongStore.open(tmp_path / "maestro")
    store.check()
    assert sorted(path.name for path in (store.path / "songs").iterdir()) == ["2004__train0", "2004__train1"]


def test_all_broken_songs_are_listed_and_the_others_are_kept(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    source = maestro(files, {"train": 4})
    (source / "2004" / "train0.wav").unlink()
    (source / "2004" / "train2.midi").write_bytes(b"nothing")
    files.midi("2004/train3.midi", [Note(5.0, 6.0, 60)])
    assert main(["maestro", str(source), "--processes", "2"]) == 2
    said = capsys.readouterr().err
    assert "3 of 4 songs cannot be read" in said
    assert f"{source / '2004' / 'train0.wav'}: the file is missing" in said
    assert f"{source / '2004' / 'train2.midi'}: this is no MIDI file" in said
    assert "all its notes (1) start after the end of the sound (0.6 s)" in said
    assert "train: found 4 songs of 962" in said
    assert not (tmp_path / "maestro").exists()
    assert main(["maestro", str(source), "--skip-broken"]) == 0
    assert "left out: 3" in capsys.readouterr().err
    assert SongStore.open(tmp_path / "maestro").splits["train"] == 1


def test_limit_takes_the_first_songs_of_each_split(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    source = maestro(files, {"train": 3, "validation": 2, "test": 1})
    assert main(["maestro", str(source), "--limit", "1", "--flac", "--processes", "1"]) == 0
    said = capsys.readouterr()
    assert "found" not in said.err
    assert "-d maestro, maestro_final" in said.out
    store = SongStore.open(tmp_path / "maestro")
    assert store.splits == {"train": 1, "validation": 1, "test": 1}
    assert store.coding == "flac"
    assert store.header["licence"] == "CC BY-NC-SA 4.0"
    assert main(["maestro", str(source)]) == 0
    assert "(1 song of each split)" in capsys.readouterr().out
    assert main(["maestro", str(source), "--overwrite", "--processes", "1"]) == 0
    assert SongStore.open(tmp_path / "maestro").splits == {"train": 3, "validation": 2, "test": 1}


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["slakh"], "needs the folder"),
        (["slakh", "no such folder"], "is no folder"),
        (["slakh", ".", "--processes", "0"], "--processes must be at least 1"),
        (["slakh", ".", "--limit", "0"], "--limit must be at least 1"),
        (["slahk", "."], "slakh"),
    ],
)
def test_usage(
    argv: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    assert main(argv) == 2
    assert part in capsys.readouterr().err


def test_help_says_what_the_folder_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["urmp", "--help"]) == 0
    said = capsys.readouterr().out
    assert "AuSep_*.wav" in said
    assert "--processes" in said


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    first = StoreWriter(tmp_path / "store", "store", resume=True)
    with pytest.raises(ValueError, match="another process is preparing it"):
        StoreWriter(tmp_path / "store", "store", resume=True)
    first.abort()
    assert not list(tmp_path.iterdir())
    StoreWriter(tmp_path / "store", "store", resume=True).abort()


def test_missing_songs_are_counted_against_the_nearest_edition() -> None:
    def found(**counts: int) -> list[Any]:
        songs = Found()
        for split, count in counts.items():
            for number in range(count):
                songs.add(f"{split}{number}", (split,), [], list, [])
        return songs.songs

    slakh = get_corpus("slakh")
    assert count_songs(slakh, found(train=1289, validation=270, test=151)) == []
    assert count_songs(slakh, found(train=1500, validation=375, test=225)) == []
    assert count_songs(slakh, found(train=1200, validation=270, test=151)) == [
        "train: found 1,200 songs of 1,289"
    ]
    musicnet = get_corpus("musicnet")
    recordings = {"validation_mt3_acoustic": 15, "test_mt3_acoustic": 15, "test_thickstun": 3}
    some = found(**recordings, test_thickstun_ext=10, train_mt3=299, train_thickstun=320)
    assert count_songs(musicnet, some) == ["train_mt3: found 299 songs of 300"]
    some = found(**recordings, test_thickstun_ext=10, train_mt3=300, train_thickstun=320, train_mt3_em=1)
    assert "train_mt3_em: found 1 songs of 293" in count_songs(musicnet, some)
    vocadito = get_corpus("vocadito")
    assert count_songs(vocadito, found(train=39)) == ["found 39 songs of 40"]
    assert count_songs(Corpus("x", "x", "", lambda source: Found()), found(train=1)) == []


def test_songs_that_splits_share_are_stored_once() -> None:
    plan = plan_splits({"train": ["a", "b"], "all": ["a", "b", "c"], "test": ["d"]})
    assert plan.owners == {"a": "songs", "b": "songs", "c": "songs", "d": "test"}
    assert plan.views == {"all": ["a", "b", "c"], "train": ["a", "b"]}


def test_shifted_recordings_sound_at_the_pitch_of_their_notes(files: Any) -> None:
    sound = files.sound("tone.wav", seconds=1.0, rate=16000, pitch=60)
    for semitones in (-5, 3):
        audio = ShiftedSound(sound, semitones, 0.05)(16000)
        assert len(audio) == 16000
        spectrum = np.abs(np.fft.rfft(audio[4000:12000] * np.hanning(8000), 65536))
        pitch = 69 + 12 * np.log2(spectrum.argmax() * 16000 / 65536 / 440)
        assert pitch == pytest.approx(60 + semitones + 0.05, abs=0.1)


def test_every_player_of_a_piece_of_guitarset_is_in_one_split(files: Any, tmp_path: Path) -> None:
    for player in range(6):
        files.text(f"annotation/{player:02d}_BN1-129-Eb_comp.jams", "{}")
        files.sound(f"audio_mono-mic/{player:02d}_BN1-129-Eb_comp_mic.wav", seconds=0.1)
    songs = get_corpus("guitarset").find(files.root).songs
    plain = [song for song in songs if "pshift" not in song.song_id]
    parts = [song.splits for song in plain]
    counts = [
        sum(part in splits for splits in parts) for part in ("train", "validation", "test", "all", "BN")
    ]
    assert counts == [4, 1, 1, 6, 6]
    shifted = [song for song in songs if "train_pshift" in song.splits]
    assert len(shifted) == 4 * 11
    assert sum("BN_pshift" in song.splits for song in songs) == 66
    assert not any("test" in song.splits for song in songs if "pshift" in song.song_id)


def test_the_accompaniment_is_what_a_separation_left(files: Any, tmp_path: Path) -> None:
    time = np.arange(16000) / 16000
    voice, rest = 0.2 * np.sin(2 * np.pi * 440 * time), 0.3 * np.sin(2 * np.pi * 110 * time)
    files.samples("1/mixture.wav", voice + rest, 16000)
    files.samples("1/vocals.wav", voice, 16000)
    files.text("MIR-ST500.json", '{"1": [[0.1, 0.5, 69]]}')
    prepare_corpus("mir_st500", files.root, tmp_path / "out", processes=1, progress=False)
    song = SongStore.open(tmp_path / "out").song("train_stem", 0)
    assert np.abs(song.stems[1] / 32768 - rest).max() < 1e-3
    assert np.abs(song.mix() - (voice + rest)).max() < 1e-3


def test_levels_of_enstdrums(files: Any, tmp_path: Path) -> None:
    files.text("drummer_3/annotation/126_minus-one_salsa_sticks.txt", "0.25 bd\n")
    for part, level in (("wet_mix", 0.9), ("accompaniment", 0.1)):
        files.sound(f"drummer_3/audio/{part}/126_minus-one_salsa_sticks.wav", level=level, rate=16000)
    prepare_corpus("enstdrums", files.root, tmp_path / "out", processes=1, progress=False)
    store = SongStore.open(tmp_path / "out")
    for split, peaks in (("drummer_3_dtm_r1", (0.75, 0.25)), ("drummer_3_dtm_r2", (0.6, 0.4))):
        stems = store.song(split, 0).stems / 32768
        assert np.abs(stems).max(axis=1) == pytest.approx(peaks, abs=1e-3)


def test_notes_of_a_pitch_line() -> None:
    line = np.zeros(100)
    line[10:40] = 60 + 0.4 * np.sin(np.arange(30))  # vibrato is one note
    line[40:70] = 62
    line[54] = 74  # an octave error of one value is no note
    line[80:83] = 65  # too short
    notes = notes_of_pitch(line)
    assert [round(pitch) for _, _, pitch in notes] == [60, 62]
    assert [round(onset / 0.02 - 0.5) for onset, _, _ in notes] == [10, 40]
    assert [round(offset / 0.02 - 0.5) for _, offset, _ in notes] == [40, 70]
    assert notes_of_pitch(np.zeros(50)) == []


def test_maestro_by_its_json_and_a_newer_version(files: Any, tmp_path: Path) -> None:
    source = maestro(files, {"train": 1})
    (source / "maestro-v3.0.0.csv").unlink()
    columns = '"split": {"0": "train"}, "midi_filename": {"0": "2004/train0.midi"}'
    files.text(
        "maestro-v3.0.0.json",
        f'{{{columns}, "audio_filename": {{"0": "2004/train0.wav"}}, "year": {{"0": 1}}}}',
    )
    rows = [{"split": "train", "midi_filename": "2004/train0.midi", "audio_filename": "2004/train0.wav"}]
    for name in ("columns", "rows"):
        report = prepare_corpus("maestro", source, tmp_path / name, processes=1, progress=False)
        assert report.splits["train"] == 1
        files.text("maestro-v3.0.0.json", json.dumps(rows))
    files.text("maestro-v3.0.0.json", f'{{{columns}, "split": {{"0": "test"}}}}')
    with pytest.raises(ValueError, match=r"maestro-v3.0.0.json: the key 'split' occurs twice"):
        prepare_corpus("maestro", source, tmp_path / "out", progress=False)
    files.text("maestro-v3.0.0.json", "[]")
    with pytest.raises(ValueError, match="is no table of MAESTRO"):
        prepare_corpus("maestro", source, tmp_path / "out", progress=False)


def test_the_page_lists_every_data_set_with_its_splits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    section = page.split("## Public data sets\n")[1].split("\n## ")[0]
    rows = {row.split("`")[1]: row.split(" | ") for row in section.splitlines() if row.startswith("| `")}
    assert set(rows) - {"amt-prepare"} == set(CORPORA)
    for name in CORPORA:
        corpus = get_corpus(name)
        split = corpus.splits[0]
        assert f"`{split}`" in rows[name][2] or split.startswith("drummer_1"), name
        assert corpus.licence.split(";")[0].split(",")[0].split(" 4.0")[0] in rows[name][3], name


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        soundfile.LibsndfileError(2, "No space left on device: "),
    ],
)
def test_a_full_disk_is_no_fault_of_a_song(
    error: Exception,
    files: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*args: Any, **rest: Any) -> None:
        raise error

    source = maestro(files, {"train": 2})
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(building, "write_song", full)
    assert main(["maestro", str(source), "--processes", "1"]) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "make room and run the same command again" in said
    assert "cannot be read" not in said


def test_a_disk_that_fills_up_late_costs_one_song(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full_at_the_second(path: Path, value: Any) -> None:
        written.append(path)
        if len(written) == 2:
            path.write_text("{")
            raise OSError(errno.ENOSPC, "No space left on device")
        write_json(path, value)

    write_json, written = building.write_json, list[Path]()
    source = maestro(files, {"train": 3})
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(building, "write_json", full_at_the_second)
    assert main(["maestro", str(source), "--processes", "1"]) == 2
    assert "make room and run the same command again" in capsys.readouterr().err
    report = prepare_corpus("maestro", source, tmp_path / "maestro", processes=1, progress=False)
    assert report.reused == 1
    SongStore.open(tmp_path / "maestro").check()


def test_a_disk_that_is_full_at_the_end_costs_nothing(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = maestro(files, {"train": 3})
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(store_writer, "write_json", full)
        assert main(["maestro", str(source), "--processes", "1"]) == 2
    assert "make room and run the same command again" in capsys.readouterr().err
    assert not (tmp_path / "maestro").exists()
    report = prepare_corpus("maestro", source, tmp_path / "maestro", processes=1, progress=False)
    assert report.reused == 3
    assert sorted(path.name for path in (tmp_path / "maestro").iterdir()) == ["index", "songs", "store.json"]


def test_a_process_that_dies_is_told(files: Any, tmp_path: Path) -> None:
    source = maestro(files, {"train": 2})
    plans = get_corpus("maestro").find(source).songs
    plans[1] = replace(plans[1], load=partial(os._exit))
    with pytest.raises(building.KilledError, match="fewer processes than 2: finished songs are kept"):
        building.build_store(tmp_path / "out", "out", plans, processes=2)
    assert not (tmp_path / "out").exists()


def test_sounds_that_are_no_drums_are_mentioned(files: Any, tmp_path: Path) -> None:
    files.text("drummer_1/annotation/001_hits.txt", "0.25 bd\n0.5 whistle\n0.75 sd-\n")
    files.sound("drummer_1/audio/wet_mix/001_hits.wav")
    report = prepare_corpus("enstdrums", files.root, tmp_path / "out", processes=1, progress=False)
    assert len(report.remarks) == 1
    assert "whistle is no known drum" in report.remarks[0]
    notes = SongStore.open(tmp_path / "out").song("all_dtd", 0).notes
    assert notes["pitch"].tolist() == [36, 38]


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_the_splits_of_the_presets_are_those_of_the_data_set(name: str) -> None:
    corpus = get_corpus(name)
    presets = [preset for preset in SINGLE_PRESETS.values() if preset.store == name]
    used = {split for preset in presets for split in preset.train}
    used |= {item.split for preset in presets for item in (*preset.validation, *preset.test)}
    assert used <= set(corpus.splits)
    assert {split for edition in corpus.editions for split in edition} <= set(corpus.splits)
    assert len(set(corpus.splits)) == len(corpus.splits)
    for preset in presets:
        assert preset.prepare_command.startswith(f"amt-prepare {name} FOLDER")


def test_every_store_that_a_preset_names_can_be_prepared() -> None:
    assert {preset.store for preset in SINGLE_PRESETS.values()} == {*CORPORA, "quickstart"}
    with pytest.raises(ValueError, match="did you mean 'slakh'"):
        get_corpus("slahk")


def test_two_copies_of_a_data_set_are_refused(files: Any, tmp_path: Path) -> None:
    for copy in ("a", "b"):
        files.sound(f"{copy}/Dataset/01_Jupiter_vn/AuSep_1_vn_01_Jupiter.wav")
        files.text(f"{copy}/Dataset/01_Jupiter_vn/Notes_1_vn_01_Jupiter.txt", "0.25 262 0.5\n")
    with pytest.raises(ValueError, match="01_Jupiter_vn is there twice"):
        prepare_corpus("urmp", files.root, tmp_path / "out", progress=False)


def test_stems_of_slakh_without_files_are_left_out(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    stems = {name: {"is_drum": False, "program_num": 1} for name in ("S00", "S01")}
    metadata = files.text("Track00001/metadata.yaml", yaml.safe_dump({"stems": stems}))
    files.sound("Track00001/stems/S00.wav")
    files.midi("Track00001/MIDI/S00.mid", [Note(0.1, 0.4, 60)])
    assert main(["slakh", str(files.root), "--limit", "9"]) == 0
    assert "1 stems have no sound or no MIDI file" in capsys.readouterr().err
    files.midi("Track00001/MIDI/S01.mid", [Note(0.1, 0.4, 60)])
    assert main(["slakh", str(files.root), "--overwrite"]) == 2
    assert "S01.flac: the file is missing" in capsys.readouterr().err
    metadata.write_text("stems: [")
    assert main(["slakh", str(files.root), "--overwrite"]) == 2
    assert f"{metadata}: is no metadata of a song" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"1": [[0.1, 0.5, 69]], "1": [[0.1, 0.5, 70]]}', "the key '1' occurs twice"),
        ('{"1": [[0.1, NaN, 69]]}', "NaN is not a JSON number"),
        ('{"1": [[0.1, 0.5]]}', "song '1' is no list of notes"),
        ("[]", "no object of songs"),
        ("", "is empty"),
    ],
)
def test_tables_of_notes_lose_no_song_silently(tmp_path: Path, text: str, message: str) -> None:
    """Case D50: of a key that occurs twice Python's reader keeps the last."""
    path = tmp_path / "MIR-ST500.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_note_table(path)
    assert path.name in str(caught.value)
    path.write_text('\ufeff{"1": [[0.1, 0.5, 69]]}', encoding="utf-8")
    assert read_note_table(path) == {1: ((0.1, 0.5, 69.0),)}


def test_entries_of_hooktheory_that_cannot_be_understood_are_counted(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    times = {"beats": [0, 4], "times": [0.0, 2.0]}
    entry = {
        "split": "TRAIN",
        "youtube": {"id": "video"},
        "alignment": {"user": times},
        "annotations": {
            "num_beats": 4,
            "melody": [{"onset": 1, "offset": 2, "octave": 0, "pitch_class": 7}],
        },
    }
    back = {**entry, "alignment": {"user": {"beats": [0, 4], "times": [2.0, 0.0]}}}
    nowhere = {**entry, "alignment": {"user": {"beats": [0, 4], "times": [0.0, math.nan]}}}
    told = {"good": entry, "back": back, "empty": {}, "nowhere": nowhere}
    files.text("Hooktheory.json", json.dumps(told))
    files.sound("video.wav", seconds=2)
    assert main(["hooktheory", str(files.root), "--processes", "1"]) == 0
    assert "3 excerpts cannot be understood, such as back" in capsys.readouterr().err
    assert SongStore.open(tmp_path / "hooktheory").song("train", 0).notes["pitch"].tolist() == [67]


def test_songs_whose_sound_is_gone_are_left_out_and_counted(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    files.text("MIR-ST500.json", json.dumps({str(number): [[0.1, 0.5, 69]] for number in (1, 2, 401)}))
    files.sound("1/mix.wav")
    files.sound("401/vocals.wav")
    files.sound("401/other.wav")
    assert main(["mir_st500", str(files.root), "--processes", "1"]) == 0
    said = capsys.readouterr().err
    assert "1 songs have notes but no folder with sound and are left out: 2" in said
    assert "train: found 1 songs of 400" in said
    assert "1 songs have no separated voice" in said
    store = SongStore.open(tmp_path / "mir_st500")
    assert store.splits["test_vocal"] == 1
    assert store.splits["test"] == 0
    files.sound("2/other.wav")
    assert main(["mir_st500", str(files.root), "--overwrite"]) == 2
    assert "neither mixture.* nor vocals.* is there" in capsys.readouterr().err
