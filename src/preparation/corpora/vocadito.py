"""Vocadito (Bittner et al. 2021): forty excerpts of solo singing, with the notes of two listeners.

``Audio/vocadito_N.wav``, ``Annotations/Notes/vocadito_N_notesA1.csv`` (onset, frequency, duration; the
first listener's are taken) and ``vocadito_metadata.csv``. There are no published splits: singers are
drawn by a hash, so that nobody sings in two splits; without the metadata every excerpt counts as a
singer.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...data.shares import split_of
from ...notes.note import SINGING_PROGRAM
from .corpus import Corpus, Found, whole
from .labels import PitchedTable, table_rows

LICENCE = "CC BY 4.0"
SPLITS = ("train", "validation", "test")


def find(source: Path) -> Found:
    """All excerpts."""
    found = Found()
    sounds = {
        int(match[1]): path
        for path in source.rglob("vocadito_*.wav")
        if (match := re.fullmatch(r"vocadito_(\d+)", path.stem))
    }
    singers = _singers(source, found)
    for number, sound in sorted(sounds.items()):
        name = f"vocadito_{number}"
        own = sorted(source.rglob(f"{name}_notesA1.csv"))
        notes = own[0] if own else sound.parent.parent / "Annotations" / "Notes" / f"{name}_notesA1.csv"
        labels = PitchedTable(
            notes, SINGING_PROGRAM, delimiter=",", lengths=True, hertz=True, order=(0, 2, 1)
        )
        meta = {"source": f"Vocadito/{name}", "licence": LICENCE}
        split = split_of(singers.get(str(number), singers.get(name, name)), 0, 0.15, 0.15)
        stems = [whole("voice", sound, (SINGING_PROGRAM,))]
        found.add(name, (split,), stems, labels, [sound, notes], **meta)
    return found


def _singers(source: Path, found: Found) -> dict[str, str]:
    tables = sorted(source.rglob("vocadito_metadata.csv"))
    if not tables:
        found.remarks.append("vocadito_metadata.csv is missing: a singer may stand in two splits")
        return {}
    return {row["track_id"]: row["singer_id"] for row in table_rows(tables[0], ("track_id", "singer_id"))}


CORPUS = Corpus("vocadito", "Vocadito", LICENCE, find, splits=SPLITS, num_songs=40)
