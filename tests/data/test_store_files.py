"""A store whose files are not as its index says is refused at the start, with all of them (case D50)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.config import AudioConfig, BatchSizes, DataConfig, DataIO, Experiment
from amt.data.module import TranscriptionData
from amt.data.sources import open_presets, open_scored_sets
from amt.data.store import SongStore, StoreWriter
from amt.data.store_files import file_problems
from amt.notes.note import NOTE_DTYPE
from amt.tokenizer import NoteTokenizer


def write(path: Path, **options: Any) -> SongStore:
    notes = np.array([(0.1, 0.4, 60, 40, 90, False), (0.2, 0.3, 36, 128, 9, True)], dtype=NOTE_DTYPE)
    with StoreWriter(path, path.name, **options) as writer:
        for split, songs in (("train", 12), ("validation", 2), ("test", 1)):
            for number in range(songs):
                stems = np.full((2, 16000 + 3 * number), number, dtype=np.int16)
                count = number % 3  # songs without notes are songs, too
                writer.add_song(
                    split, f"{split} é{number}", stems, [[40], [128]], ["a", "b"], notes[:count], {}
                )
        writer.add_song("train", "empty", np.zeros((1, 0), np.int16), [[]], ["a"], notes[:0], {})
    return SongStore.open(path)


def all_parts(store: SongStore) -> list[tuple[SongStore, str]]:
    return [(store, split) for split in store.splits]


@pytest.mark.parametrize("flac", [False, True])
def test_a_whole_store_has_no_problem(tmp_path: Path, flac: bool) -> None:
    assert file_problems(all_parts(write(tmp_path / "mine", flac=flac))) == []


def damage(path: Path) -> list[str]:
    """Spoil six songs; what each is told by."""
    songs = path / "songs"
    stems = songs / "train é0" / "stems.npy"
    stems.write_bytes(stems.read_bytes()[:-64])  # a copy that was broken off
    (songs / "train é1" / "stems.npy").unlink()
    shutil.copy(songs / "train é5" / "stems.npy", songs / "train é2" / "stems.npy")  # of another edition
    (songs / "train é3" / "song.json").write_text("")
    np.save(songs / "validation é0" / "notes.npy", np.zeros(9, NOTE_DTYPE))
    shutil.rmtree(songs / "test é0")
    (songs / "test é0").mkdir()
    return [
        r"train é0.stems\.npy: has 64064 bytes, not 64128",
        r"train é1.stems\.npy: No such file",
        r"train é2.stems\.npy: has 64188 bytes, not 64152",
        r"train é3.song\.json: is empty",
        r"validation é0.notes\.npy: has \d+ bytes, not \d+",
        r"test é0.song\.json: No such file",
        r"test é0.notes\.npy: No such file",
        r"test é0.stems\.npy: No such file",
    ]


def test_all_files_are_named_at_the_start_of_a_run(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    told = damage(tmp_path / "mine")
    SongStore.open(tmp_path / "mine")  # the index alone is well
    run = Experiment(
        audio=AudioConfig(segment_samples=8000),
        bsz=BatchSizes(sub=2, local=2),
        dataio=DataIO(num_workers=0),
        data=DataConfig(presets=("mine",)),
    )
    tokenizer = NoteTokenizer.from_task(run.task, segment_samples=8000, max_length=256)
    with pytest.raises(ValueError, match=r"mine: 8 file\(s\) of songs are not as the index says") as error:
        TranscriptionData(run, tokenizer, tmp_path)
    for words in told:
        assert re.search(words, str(error.value)), words
    assert open_scored_sets(["mine"], tmp_path, "test"), "the broken song is named where it is scored"
    assert open_presets(["mine"], tmp_path, check_files=False).training


def test_many_files_are_counted(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "mine", "mine") as writer:
        for number in range(60):
            stems = np.zeros((1, 100), np.int16)
            writer.add_song("train", f"s{number}", stems, [[]], ["a"], np.zeros(0, NOTE_DTYPE), {})
    for file in (tmp_path / "mine").rglob("stems.npy"):
        file.unlink()
    (text,) = file_problems(all_parts(SongStore.open(tmp_path / "mine")))
    assert "60 file(s)" in text
    assert text.endswith("and 10 more")
    assert len(text.splitlines()) == 52


def test_flac_files_must_be_there(tmp_path: Path) -> None:
    store = write(tmp_path / "mine", flac=True)
    (tmp_path / "mine" / "songs" / "train é1" / "stem01.flac").unlink()
    (tmp_path / "mine" / "songs" / "train é2" / "stem00.flac").write_bytes(b"")
    (text,) = file_problems(all_parts(store))
    assert "2 file(s)" in text
    assert "stem01.flac: No such file" in text
    assert "stem00.flac: is empty" in text


def test_a_head_of_another_length_is_no_problem(tmp_path: Path) -> None:
    """Another version of NumPy, or another program, may write one."""
    store = write(tmp_path / "mine")
    for name in ("stems.npy", "notes.npy"):
        path = tmp_path / "mine" / "songs" / "train é2" / name
        values = np.load(path)
        with path.open("wb") as file:
            np.lib.format.write_array(file, values, version=(2, 0))
        content = path.read_bytes()
        length = int.from_bytes(content[8:12], "little")
        head = content[12 : 12 + length].rstrip(b"\n") + b" " * 64 + b"\n"
        path.write_bytes(content[:8] + len(head).to_bytes(4, "little") + head + content[12 + length :])
    assert file_problems(all_parts(store)) == []
    store.check()
    np.testing.assert_array_equal(store.song("train", 2).read_stems(0, 10), 2)
