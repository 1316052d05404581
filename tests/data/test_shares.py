"""Songs dealt out to splits, and the flags that fill them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.data.shares import FACT, Shares, filling_flags, split_of, store_way_out
from amt.data.store import SongStore, StoreWriter
from amt.notes.note import Note, notes_to_array

MakeStore = Callable[..., SongStore]


@pytest.fixture
def store_of(tmp_path: Path) -> MakeStore:
    """``store_of(names, name=...)``: a store whose songs are all for training."""

    def make(names: Sequence[str], name: str = "mine", **facts: Any) -> SongStore:
        with StoreWriter(tmp_path / name, name, facts=facts) as writer:
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
    flags = filling_flags(names, Shares())
    said = store_way_out(store_of(names))
    assert said.startswith(f"prepare mine again with {flags}: then every split has a song; a manifest")
    said = store_way_out(store_of(names, "dealt", **{FACT: {"validation": 0.2, "test": 0.0, "seed": 5}}))
    flags = filling_flags(names, Shares(0.2, 0.0))
    assert said == f"prepare dealt again with {flags}: then every split has a song"
    said = store_way_out(store_of(names, "unscored", **{FACT: {"validation": 0.0, "test": 0.1, "seed": 0}}))
    assert said == "prepare unscored again with --overwrite and a --validation-share above 0"
    assert store_way_out(store_of(names, name="quickstart")) == ""
    assert store_way_out(store_of(["one"], name="alone")).startswith("1 song cannot fill 3 splits: add songs")
    said = store_way_out(store_of(["one"], "single", **{FACT: {"validation": 0.0, "test": 0.0, "seed": 0}}))
    assert said == "1 song cannot fill 2 splits: add songs"
    for number, broken in enumerate(("x", {"seeds": 1}, {"validation": 2.0})):
        name = f"odd{number}"
        assert store_way_out(store_of(names, name, **{FACT: broken})).startswith(f"prepare {name} again")


def test_songs_choose_the_first_seed_that_gives_every_split_one() -> None:
    names = [f"song{number}" for number in range(14)]
    seeds = [seed for seed in range(50) if dealt(names, f"--seed {seed}", 0.1) == set(Shares().wanted)]
    assert Shares(seed=3).for_songs(names) == Shares(seed=3)
    assert Shares().for_songs(names).seed == seeds[0]
    assert Shares().for_songs(names, before=seeds[2]).seed == seeds[2]
    unfit = next(seed for seed in range(50) if seed not in seeds)
    assert Shares().for_songs(names, before=unfit).seed == seeds[0]
    assert Shares().for_songs(names[:2]).seed == 0
    assert Shares().for_songs(names[:2], before=7).seed == 7
