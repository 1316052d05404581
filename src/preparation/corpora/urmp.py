"""URMP (Li et al. 2019): 44 pieces whose players were recorded one by one.

A folder for each piece, ``NN_Name_instruments``, with ``AuSep_P_instrument_NN_Name.wav`` and
``Notes_P_instrument_NN_Name.txt`` (onset, frequency, duration) for each player.
"""

from __future__ import annotations

import re
from pathlib import Path

from .corpus import Corpus, Found, whole
from .labels import PitchedTable, joined_labels

LICENCE = "not stated; for research"
TEST = frozenset({1, 2, 12, 13, 24, 25, 31, 38, 39})
PROGRAMS = {
    "vn": 40,
    "va": 41,
    "vc": 42,
    "db": 43,
    "tpt": 56,
    "tbn": 57,
    "tba": 58,
    "hn": 60,
    "sax": 65,
    "ob": 68,
    "bn": 70,
    "cl": 71,
    "fl": 73,
}
"""Instrument in the file names to MIDI program."""
_PART = re.compile(r"AuSep_(?P<player>\d+)_(?P<instrument>[a-z]+)_(?P<rest>.+)\.wav")


def find(source: Path) -> Found:
    """All pieces with separated parts."""
    found = Found()
    for folder in sorted({path.parent for path in source.rglob("AuSep_*.wav")}):
        number = re.match(r"(\d\d?)_", folder.name)
        parts = [match for path in sorted(folder.iterdir()) if (match := _PART.fullmatch(path.name))]
        strange = sorted({part["instrument"] for part in parts} - set(PROGRAMS))
        if number is None or not parts or strange:
            why = f"instrument {strange[0]} is unknown" if strange else "the name has no number"
            found.broken[folder.name] = f"{folder}: {why}"
            continue
        stems, labels, files = [], [], []
        for part in parts:
            program = PROGRAMS[part["instrument"]]
            sound = folder / part[0]
            notes = folder / f"Notes_{part['player']}_{part['instrument']}_{part['rest']}.txt"
            stems.append(whole(f"{part['player']}_{part['instrument']}", sound, (program,)))
            labels.append(PitchedTable(notes, program, lengths=True, hertz=True, order=(0, 2, 1)))
            files += [sound, notes]
        meta = {"source": f"URMP/{folder.name}", "licence": LICENCE}
        split = "test" if int(number[1]) in TEST else "train"
        found.add(folder.name, (split,), stems, joined_labels(labels), files, **meta)
    return found


CORPUS = Corpus("urmp", "URMP", LICENCE, find, editions=({"train": 35, "test": 9},), splits=("train", "test"))
