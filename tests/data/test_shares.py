"""Songs dealt out to splits, and the flags that fill them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from amt.data.shares import Shares, filling_flags, split_of, validation_way_out
from amt.data.store import SongStore, StoreWriter
from amt.notes.note import Note, notes_to_array

MakeStore = Callable[..., SongStore]


@pytest.fixture
def store_of(tmp_path: Path) -> MakeStore:
    """``store_of(names, name=...)``: a store whose songs are all for training."""

    def make(names: Sequence[str], name: str = "mine") -> SongStore:
        with StoreWriter(tmp_path / name, name) as writer:
            notes = notes_to_array([Note(0.1, 0.2, 60, program=100)])
            for song in names:
                sound = np.zeros((1, 8000), np.int16)
                meta = {"source": song}
                writer.add_song("train", song.replace("/", "__"), sound, [[100]], ["mix"], notes, meta)
            for split in ("validation", "test"):
                writer.add_split(split)
        return SongStore.open(tmp_path / name)

    return make


def dealt(names: Sequence[str], flags: str, test: float) -> set[str]:
    return {split_of(name, int(flags.split()[-1]), 0.1, test) for name in names}


def test_flags_fill_every_split() -> None:
    names = ["a", "b/c", "d", "e"]
    flags = filling_flags(names, Shares())
    assert flags.startswith("--overwrite --seed ")
    assert dealt(names, flags, 0.1) == {"train", "validation", "test"}
    flags = filling_flags(names[:2], Shares())
    assert flags.startswith("--overwrite --test-share 0 --seed ")
    assert dealt(names[:2], flags, 0.0) == {"train", "validation"}
    assert filling_flags(names[:1], Shares()) == ""
    assert filling_flags(names[:1], Shares(test=0.0)) == ""


def test_a_store_names_the_flags_of_its_own_songs(store_of: MakeStore) -> None:
    names = ["album/one", "two", "three"]
    said = validation_way_out([store_of(["x", "y", "z"], name="quickstart"), store_of(names)])
    assert said.startswith(f"prepare mine again with {filling_flags(names, Shares())} and the default shares")
    assert validation_way_out([store_of(["one"], name="alone")]) == ""
