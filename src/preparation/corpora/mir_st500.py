"""MIR-ST500 (Wang and Jang 2021): 500 popular songs with the notes of the singer.

``MIR-ST500_corrected.json`` (or ``MIR-ST500*.json``) and a numbered folder for each song, see
:mod:`.singers`; songs to 400 are ``train``, the others ``test``. The sound is not published: its authors
name videos.
"""

from __future__ import annotations

from pathlib import Path

from .corpus import Corpus, Found
from .singers import add_songs, read_note_table

LICENCE = "labels for research; recordings under copyright"
LAST_TRAINING_SONG = 400


def find(source: Path) -> Found:
    """All songs of the newest table of notes."""
    tables = sorted(source.rglob("MIR-ST500*.json"), key=lambda path: ("corrected" in path.name, path.name))
    if not tables:
        raise ValueError(f"{source}: no MIR-ST500_corrected.json found; give the folder that holds it")
    found = Found()
    notes = {number: (tables[-1], rows) for number, rows in read_note_table(tables[-1]).items()}
    add_songs(found, source, "MIR-ST500", notes, _part_of, LICENCE)
    return found


def _part_of(number: int) -> str:
    return "train" if number <= LAST_TRAINING_SONG else "test"


CORPUS = Corpus(
    "mir_st500",
    "MIR-ST500",
    LICENCE,
    find,
    editions=(
        {"train": 400, "train_stem": 400, "test": 100, "test_stem": 100},
        {
            "train": 400,
            "train_stem": 400,
            "train_vocal": 400,
            "test": 100,
            "test_stem": 100,
            "test_vocal": 100,
        },
    ),
    splits=("train", "train_stem", "train_vocal", "test", "test_stem", "test_vocal"),
)
