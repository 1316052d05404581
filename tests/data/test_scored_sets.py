"""The sets that are scored apart from training, by preset and split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from amt.data.sources import open_scored_sets
from amt.data.store import StoreWriter
from amt.notes import Note, notes_to_array


@pytest.fixture
def data_home(tmp_path: Path) -> Path:
    splits = {
        "mine": ("train", "test", "extra"),
        "quickstart": ("train", "validation", "validation_hard", "test_standard", "test_hard"),
        "slakh": ("test",),
    }
    for name, parts in splits.items():
        with StoreWriter(tmp_path / name, name) as writer:
            for split in parts:
                notes = notes_to_array([Note(0.1, 0.2, 60)])
                writer.add_song(
                    split, f"{split}1", np.zeros((1, 1600), np.int16), [[0]], ["piano"], notes, {}
                )
    return tmp_path


def named(data_home: Path, *presets: str, split: str = "test") -> dict[str, tuple[str, str]]:
    return {item.name: (item.store.name, item.split) for item in open_scored_sets(presets, data_home, split)}


def test_what_a_preset_calls_test_and_validation(data_home: Path) -> None:
    assert named(data_home, "quickstart") == {
        "quickstart_standard": ("quickstart", "test_standard"),
        "quickstart_hard": ("quickstart", "test_hard"),
    }
    assert named(data_home, "quickstart", "mine", split="train") == {
        "quickstart_train": ("quickstart", "train"),
        "mine_train": ("mine", "train"),
    }
    assert set(named(data_home, "quickstart", split="validation")) == {"quickstart", "quickstart_hard"}
    assert named(data_home, "mine", split="extra") == {"mine_extra": ("mine", "extra")}


def test_only_the_scored_split_need_be_there(data_home: Path) -> None:
    [item] = open_scored_sets(["slakh"], data_home)
    assert (item.name, item.split, item.eval_vocab, item.eval_drum_vocab) == ("slakh", "test", "gm", "gm")
    assert item.num_songs() == 1
    twice = open_scored_sets(["slakh", "slakh_final"], data_home)
    assert len(twice) == 1, "a set of two presets is scored once"
    assert len(open_scored_sets(["slakh", "mine"], data_home, excluded=["slakh"])) == 1


@pytest.mark.parametrize(
    ("presets", "split", "words"),
    [
        (
            ["mine"],
            "validation",
            r"has no validation set; --split can be test \(1 song\), train \(1 song\), extra \(1 song\)$",
        ),
        (["slakh"], "validation", "has no split validation"),
        (["quickstart"], "tets", "has no split tets"),
        (["mine", "quikstart"], "test", "did you mean 'quickstart'"),
        (["mine", "maestro"], "test", "--only maestro"),
    ],
)
def test_what_is_missing_is_said(data_home: Path, presets: list[str], split: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        open_scored_sets(presets, data_home, split)


def test_the_rate_must_be_that_of_the_network(data_home: Path) -> None:
    assert open_scored_sets(["mine"], data_home, sample_rate=16000)
    with pytest.raises(ValueError, match="has 16000 Hz, the run uses 8000 Hz"):
        open_scored_sets(["mine"], data_home, sample_rate=8000)
