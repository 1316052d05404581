"""CMedia: a hundred popular songs with the notes of the singer.

A numbered folder for each song, see :mod:`.singers`. Its notes stand in one JSON file, as those of
MIR-ST500, or in each folder in ``N_groundtruth.txt`` (onset, offset, pitch in a line). All songs are in
``train``. A note shorter than 10 ms lasts until the next one where that starts within half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .corpus import Corpus, Found
from .labels import number_rows
from .singers import Row, add_songs, read_note_table

LICENCE = "not public"
SHORT, NEAR = 0.01, 0.5
"""Seconds of a note that is lengthened, and of the distance up to which it is."""


def find(source: Path) -> Found:
    """All songs with notes."""
    found = Found()
    notes: dict[int, tuple[Path, Sequence[Row]]] = {}
    for table in sorted(source.glob("*.json")):
        notes |= {number: (table, lengthened(rows)) for number, rows in read_note_table(table).items()}
    for file in sorted(source.rglob("*_groundtruth.txt")):
        number = file.name.removesuffix("_groundtruth.txt")
        if number.isdecimal() and int(number) not in notes:
            try:
                rows = [(row[0], row[1], row[2]) for row in number_rows(file, 3)]
            except ValueError as error:
                found.broken[f"{int(number):03d}"] = str(error)
                continue
            notes[int(number)] = (file, lengthened(rows))
    add_songs(found, source, "CMedia", notes, lambda number: "train", LICENCE)
    return found


def lengthened(rows: Sequence[Row]) -> list[Row]:
    """Notes in order of time; those too short to be sung last until the next near one."""
    ordered = sorted(rows)
    result = []
    for (onset, offset, pitch), following in zip(ordered, [*ordered[1:], None], strict=True):
        if following is not None and offset - onset < SHORT and 0 < following[0] - onset < NEAR:
            offset = following[0]
        result.append((onset, offset, pitch))
    return result


CORPUS = Corpus(
    "cmedia",
    "CMedia",
    LICENCE,
    find,
    editions=({"train": 100, "train_stem": 100}, {"train": 100, "train_stem": 100, "train_vocal": 100}),
    splits=("train", "train_stem", "train_vocal"),
)
