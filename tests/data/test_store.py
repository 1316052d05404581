"""The store: written atomically, checked when opened, read without keeping handles."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.data.patience import UnreadableFile
from amt.data.store import SongStore, StoreError, StoreWriter
from amt.notes.note import NOTE_DTYPE, NoteArray


def notes_of(*rows: tuple[float, float, int, int, int, bool]) -> NoteArray:
    return np.array(list(rows), dtype=NOTE_DTYPE)


def write_store(path: Path, songs: int = 3, **options: object) -> None:
    with StoreWriter(path, "demo", **options) as writer:  # type: ignore[arg-type]
        for i in range(songs):
            stems = np.random.default_rng(i).integers(-20000, 20000, (3, 100 + i)).astype(np.int16)
            notes = notes_of((0.5, 0.6, 36, 128, 100, True), (0.1, 0.4, 60 + i, 40, 90, False))
            writer.add_song(
                "train" if i else "test",
                f"söng {i}",
                stems,
                [[40], [128], []],
                ["violin", "drums", "noise"],
                notes,
                {
                    "unannotated": [129],
                    "octave_unknown": i == 1,
                    "source": "made here",
                    "licence": "CC0",
                    "extra": i,
                },
            )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    store = SongStore.open(tmp_path / "store")
    store.check()
    assert store.name == "demo"
    assert store.splits == {"test": 1, "train": 2}
    song = store.song("train", 0)
    expected = np.random.default_rng(1).integers(-20000, 20000, (3, 101)).astype(np.int16)
    assert (song.song_id, song.num_samples, song.octave_unknown) == ("söng 1", 101, True)
    assert song.stem_names == ["violin", "drums", "noise"]
    assert song.stem_programs == [[40], [128], []]
    assert song.unannotated == [129]
    assert (song.meta["licence"], song.meta["extra"]) == ("CC0", 1)
    np.testing.assert_array_equal(song.stems, expected)
    assert isinstance(song.stems, np.memmap)
    assert song.notes["onset"].tolist() == [0.1, 0.5]
    mixed = np.clip(expected.astype(np.int32).sum(axis=0) / 32768, -1, 1).astype(np.float32)
    np.testing.assert_array_equal(song.mix(), mixed)
    np.testing.assert_array_equal(song.mix(10, 20), mixed[10:20])
    padded = song.mix(-5, 110)
    np.testing.assert_array_equal(padded[5:106], mixed)
    assert not padded[:5].any()
    assert not padded[106:].any()
    np.testing.assert_array_equal(song.read_stems(3, 50, [2, 0]), expected[[2, 0], 3:50])
    assert song.read_stems(200, 210).shape == (3, 10)
    with pytest.raises(ValueError, match="did you mean 'train'"):
        store.song("trian", 0)


def test_hashes_are_of_content_and_reproducible(tmp_path: Path) -> None:
    write_store(tmp_path / "a")
    write_store(tmp_path / "b")
    first, second = SongStore.open(tmp_path / "a"), SongStore.open(tmp_path / "b")
    for split in first.splits:
        assert first.content_hash(split) == second.content_hash(split) == first.recorded_hash(split)
    for path in sorted((tmp_path / "a").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()
    target = tmp_path / "b" / "songs" / "söng 1" / "stems.npy"
    content = bytearray(target.read_bytes())
    content[-1] ^= 1
    target.write_bytes(bytes(content))
    assert second.content_hash("train") != first.content_hash("train")
    with pytest.raises(StoreError, match="hash"):
        second.check()


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), StoreWriter(tmp_path / "store", "demo"):
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
    write_store(tmp_path / "store")
    before = (tmp_path / "store" / "store.json").read_bytes()
    with pytest.raises(ValueError, match="exists already"):
        write_store(tmp_path / "store", songs=1)
    with pytest.raises(RuntimeError), StoreWriter(tmp_path / "store", "demo", overwrite=True):
        raise RuntimeError
    assert (tmp_path / "store" / "store.json").read_bytes() == before
    write_store(tmp_path / "store", songs=1, overwrite=True)
    assert SongStore.open(tmp_path / "store").splits == {"test": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_one_writer_at_a_time_until_the_store_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []
    rename, rmtree = os.rename, shutil.rmtree

    def intrude(*args: object, **rest: object) -> None:
        with pytest.raises(ValueError, match="another process is preparing it"):
            StoreWriter(tmp_path / "demo", "demo", resume=True, overwrite=True)
        refused.append(args)

    def watched_rename(*args: Path) -> None:
        intrude(*args)
        rename(*args)
        intrude(*args)

    def watched_rmtree(path: Path, **rest: bool) -> None:
        if Path(path).name.endswith(".unfinished"):
            intrude(path)
        rmtree(path, **rest)

    writer = StoreWriter(tmp_path / "demo", "demo", resume=True)
    writer.add_split("train")
    monkeypatch.setattr(os, "rename", watched_rename)
    monkeypatch.setattr(shutil, "rmtree", watched_rmtree)
    writer.close()
    monkeypatch.undo()
    assert len(refused) == 3
    with StoreWriter(tmp_path / "demo", "demo", resume=True, overwrite=True) as writer:
        writer.add_split("train")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo"]


def test_a_replaced_store_comes_back_where_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path / "demo", songs=2)
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name == "store":
            raise PermissionError(errno.EACCES, "Permission denied", str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError):
        write_store(tmp_path / "demo", songs=3, overwrite=True)
    monkeypatch.undo()
    assert sum(SongStore.open(tmp_path / "demo").splits.values()) == 2


def test_a_file_in_place_of_the_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ValueError, match="home: is no folder"):
        StoreWriter(tmp_path / "home" / "demo", "demo")


def test_leftovers_of_a_killed_writer_go(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "store", "demo")
    (leftover,) = tmp_path.iterdir()
    dead = tmp_path / leftover.name.replace(str(os.getpid()), "999999999")
    shutil.copytree(leftover, dead)
    writer.abort()
    write_store(tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"song_id": "a/b"}, "cannot be the name of a folder"),
        ({"song_id": ""}, "cannot be the name"),
        ({"song_id": "é" * 150}, "200 bytes"),
        ({"stems": np.zeros((1, 5), np.float32)}, "must be int16"),
        ({"stem_programs": [[0], [1]]}, "numbers must agree"),
        ({"stem_programs": [[129]]}, "0 to 128"),
        ({"notes": notes_of((0.0, 1.0, 60, 1, 1, False))}, "program 1 belong to no stem"),
        ({"notes": notes_of((0.0, np.nan, 60, 0, 1, False))}, "not finite"),
        ({"notes": notes_of((-0.1, 1.0, 60, 0, 1, False))}, "before 0 s"),
        ({"notes": notes_of((2.0, 1.0, 60, 0, 1, False))}, "ends before it starts"),
        ({"notes": notes_of((0.0, 1.0, 128, 0, 1, False))}, "outside 0 to 127"),
    ],
)
def test_songs_that_break_a_rule_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    song: dict[str, object] = {
        "split": "train",
        "song_id": "one",
        "stems": np.zeros((1, 5), np.int16),
        "stem_programs": [[0]],
        "stem_names": ["a"],
        "notes": notes_of(),
    }
    with StoreWriter(tmp_path / "store", "demo") as writer:
        with pytest.raises(ValueError, match=message):
            writer.add_song(**{**song, **change})  # type: ignore[arg-type]
        writer.add_song(**song)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="twice"):
            writer.add_song(**song)  # type: ignore[arg-type]
    assert SongStore.open(tmp_path / "store").splits == {"train": 1}


def test_opening_lists_all_problems_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with pytest.raises(StoreError, match="no prepared store"):
        SongStore.open(path)
    write_store(path)
    shutil.rmtree(path / "songs" / "söng 2")
    (path / "index" / "test.npy").unlink()
    header = json.loads((path / "store.json").read_text())
    header["splits"]["train"]["songs"] = 7
    header["sample_rate"] = "fast"
    (path / "store.json").write_text(json.dumps(header))
    with pytest.raises(StoreError) as error:
        SongStore.open(path)
    for expected in (
        "4 problem",
        "sample_rate",
        "index/test.npy is missing",
        "2 songs, store.json says 7",
        "songs/söng 2",
    ):
        assert expected in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("{", "line 1 column 2"),
        ('{"sample_rate": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ("[]", "must hold a JSON object"),
        ('{"format": "zip"}', "the format is 'zip'"),
        ('{"format": "amt-store", "version": 3}', "store version 3, this version of amt reads up to 2"),
    ],
)
def test_a_damaged_header_is_named(tmp_path: Path, text: str, message: str) -> None:
    write_store(tmp_path / "store")
    (tmp_path / "store" / "store.json").write_text(text)
    with pytest.raises(StoreError, match=message) as error:
        SongStore.open(tmp_path / "store")
    assert "store.json" in str(error.value)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    file = tmp_path / "store" / "store.json"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert SongStore.open(tmp_path / "store").name == "demo"


def test_damaged_songs_name_their_file(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    store = SongStore.open(tmp_path / "store")
    stems = tmp_path / "store" / "songs" / "söng 1" / "stems.npy"
    stems.write_bytes(stems.read_bytes()[:-10])
    for read in (lambda: store.song("train", 0).mix(), lambda: store.song("train", 0).stems):
        with pytest.raises(StoreError, match=r"stems\.npy"):
            read()
    stems.unlink()
    with pytest.raises(StoreError, match=r"stems\.npy: the file is missing"):
        store.song("train", 0).mix()
    np.save(tmp_path / "store" / "songs" / "söng 2" / "notes.npy", np.zeros(9, NOTE_DTYPE))
    with pytest.raises(StoreError, match=r"notes\.npy"):
        _ = store.song("train", 1).notes
    with pytest.raises(StoreError, match="2 problem"):
        store.check()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files the Linux way")
def test_no_handle_is_kept(tmp_path: Path) -> None:
    write_store(tmp_path / "store", songs=40)
    before = len(os.listdir("/proc/self/fd"))
    store = SongStore.open(tmp_path / "store")
    songs = [store.song("train", i) for i in range(39)]
    assert all(song.mix().size and len(song.notes) for song in songs)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_store_can_be_pickled_and_is_small(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    store = pickle.loads(pickle.dumps(SongStore.open(tmp_path / "store")))
    assert len(store.song("train", 1).mix()) == 102
    assert len(pickle.dumps(store)) < 5000


def test_splits_can_share_songs(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with StoreWriter(path, "demo") as writer:
        for i in range(4):
            notes = notes_of((0.0, 0.5, 60 + i, 0, 1, False))
            writer.add_song("songs", f"s{i}", np.full((1, 9), i, np.int16), [[0]], ["a"], notes)
        writer.add_view("fold_1", ["s2", "s0"])
        writer.add_view("fold_2", ["s2"])
        for split, songs, message in (
            ("songs", ["s0"], "there already"),
            ("fold_3", ["s9"], "'s9' is not in the store"),
        ):
            with pytest.raises(ValueError, match=message):
                writer.add_view(split, songs)
        with pytest.raises(ValueError, match="songs of other splits"):
            writer.add_song("fold_1", "s9", np.zeros((1, 9), np.int16), [[0]], ["a"], notes_of())
    store = SongStore.open(path)
    assert store.splits == {"songs": 4, "fold_1": 2, "fold_2": 1}
    assert store.song("fold_1", 0).notes["pitch"].tolist() == [62]
    assert store.header["version"] == 2
    for split in store.splits:
        assert store.content_hash(split) == store.recorded_hash(split)
    store.check()
    header = json.loads((path / "store.json").read_text())
    del header["splits"]["fold_1"]["view"]
    header["audio"] = "mp3"
    (path / "store.json").write_text(json.dumps(header))
    with pytest.raises(StoreError, match="'s2' stands in 'fold_1' and in 'songs'") as error:
        SongStore.open(path)
    assert "'audio' is 'mp3'" in str(error.value)


def test_a_plain_store_is_written_as_version_1(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    assert SongStore.open(tmp_path / "store").header["version"] == 1


def test_a_file_that_the_disk_does_not_give_is_said_where_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StoreWriter(tmp_path / "away", "away") as writer:
        writer.add_split("train")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(StoreError, match=r"train\.npy") as caught:
        SongStore.open(tmp_path / "away")
    assert os.strerror(errno.EIO) in str(caught.value)


def test_an_error_of_the_disk_is_no_damaged_flac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(tmp_path / "store", flac=True)
    song = SongStore.open(tmp_path / "store").song("train", 0)

    def fail(*_: object) -> None:
        raise soundfile.LibsndfileError(2)

    monkeypatch.setattr(soundfile, "SoundFile", fail)
    with pytest.raises(UnreadableFile, match=r"stem00\.flac: cannot be read") as caught:
        song.read_stems()
    assert caught.value.errno == errno.EIO


def test_no_handle_is_left_when_the_head_of_an_array_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path / "store")
    song = SongStore.open(tmp_path / "store").song("train", 0)
    closed: list[int] = []
    close = os.close

    def fail(*_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "pread", fail)
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), close(handle)))
    with pytest.raises(UnreadableFile, match=r"stems\.npy: cannot be read"):
        song.read_stems()
    assert len(closed) == 1
