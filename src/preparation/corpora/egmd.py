"""E-GMD (Callender et al. 2020): drum performances on an electronic kit, in the sounds of 43 kits.

``e-gmd-v1.0.0.csv`` beside the folders of the drummers. ``test_reduced`` is a view of ``test``: the
performances in the sounds of kits 5 and 10, whose file names end in ``_5`` and ``_10``.
"""

from __future__ import annotations

from pathlib import Path

from ...notes.note import DRUM_PROGRAM
from .corpus import Corpus, Found, whole
from .labels import MidiLabels, table_rows

SPLITS = ("train", "validation", "test")
REDUCED = ("_5", "_10")
LICENCE = "CC BY 4.0"


def find(source: Path) -> Found:
    """All performances of the table."""
    tables = sorted(source.rglob("e-gmd-v*.csv"))
    if not tables:
        raise ValueError(f"{source}: no e-gmd-v*.csv found; give the folder of E-GMD that holds it")
    found = Found()
    table = tables[-1]
    for row in table_rows(table, ("split", "midi_filename", "audio_filename")):
        split, name = row["split"], Path(row["audio_filename"])
        if split not in SPLITS:
            raise ValueError(f"{table}: {name} has the split {split!r}")
        splits = [split]
        if split == "test" and name.stem.endswith(REDUCED):
            splits.append("test_reduced")
        audio, midi = table.parent / name, table.parent / row["midi_filename"]
        meta = {"source": f"E-GMD/{name.as_posix()}", "licence": LICENCE}
        song_id = name.with_suffix("").as_posix().replace("/", "__")
        stems = [whole("drums", audio, (DRUM_PROGRAM,))]
        found.add(song_id, splits, stems, MidiLabels(midi, drums=True), [audio, midi], **meta)
    return found


CORPUS = Corpus(
    "egmd",
    "E-GMD",
    LICENCE,
    find,
    editions=({"train": 35217, "validation": 5031, "test": 5289, "test_reduced": 246},),
    splits=(*SPLITS, "test_reduced"),
)
