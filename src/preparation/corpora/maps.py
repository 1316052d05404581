"""MAPS (Emiya et al. 2010): piano pieces played by nine pianos; two of them are real.

``MAPS_MUS-PIECE_INSTRUMENT.wav`` in any folders, with its ``.txt`` (onset, offset, pitch below a line of
names, pedal included) or, without that, its ``.mid``.

``test`` holds the pieces of the real pianos (``ENSTDkAm`` ``ENSTDkCl``), ``train`` those of the others
without the pieces of ``test``, ``all`` everything.
"""

from __future__ import annotations

import re
from pathlib import Path

from .corpus import Corpus, Found, Labels, whole
from .labels import MidiLabels, PitchedTable

LICENCE = "CC BY-NC-SA 2.0"
REAL = ("ENSTDkAm", "ENSTDkCl")
_NAME = re.compile(r"MAPS_MUS-(?P<piece>.+)_(?P<instrument>[^_]+)\.wav")


def find(source: Path) -> Found:
    """All pieces of music; single notes and chords are left out."""
    found = Found()
    sounds = {
        path: match
        for path in sorted(source.rglob("MAPS_MUS-*.wav"))
        if (match := _NAME.fullmatch(path.name))
    }
    tested = {match["piece"] for match in sounds.values() if match["instrument"] in REAL}
    for sound, match in sounds.items():
        table, midi = sound.with_suffix(".txt"), sound.with_suffix(".mid")
        labels: Labels = PitchedTable(table, 0, header="OnsetTime")
        if not table.is_file() and midi.is_file():
            labels = MidiLabels(midi, 0, drums=False)
            table = midi
        splits = ["all"]
        if match["instrument"] in REAL:
            splits.append("test")
        elif match["piece"] not in tested:
            splits.append("train")
        meta = {"source": f"MAPS/{sound.name}", "licence": LICENCE}
        found.add(sound.stem, splits, [whole("piano", sound, (0,))], labels, [sound, table], **meta)
    return found


CORPUS = Corpus(
    "maps",
    "MAPS",
    LICENCE,
    find,
    editions=({"train": 139, "test": 60, "all": 270},),
    splits=("train", "test", "all"),
)
