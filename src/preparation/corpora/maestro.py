"""MAESTRO (Hawthorne et al. 2019): piano competitions with the keys and pedals of a Disklavier.

``maestro-v3.0.0.csv`` (or ``.json``) beside the folders of the years; versions 1 and 2 are read too.
"""

from __future__ import annotations

from pathlib import Path

from ...data.strict_json import parse_json
from .corpus import Corpus, Found, whole
from .labels import MidiLabels, read_text, table_rows

SPLITS = ("train", "validation", "test")
COLUMNS = ("split", "midi_filename", "audio_filename")
LICENCE = "CC BY-NC-SA 4.0"


def find(source: Path) -> Found:
    """All songs of the table of the newest version."""
    tables = sorted(source.rglob("maestro-v*.csv")) or sorted(source.rglob("maestro-v*.json"))
    if not tables:
        raise ValueError(f"{source}: no maestro-v*.csv found; give the folder of MAESTRO that holds it")
    found = Found()
    for row in _rows(tables[-1]):
        audio, midi = (tables[-1].parent / row[name] for name in ("audio_filename", "midi_filename"))
        if row["split"] not in SPLITS:
            raise ValueError(f"{tables[-1]}: {row['audio_filename']} has the split {row['split']!r}")
        song_id = Path(row["audio_filename"]).with_suffix("").as_posix().replace("/", "__")
        meta = {"source": f"MAESTRO/{row['audio_filename']}", "licence": LICENCE}
        stems = [whole("piano", audio, (0,))]
        found.add(song_id, (row["split"],), stems, MidiLabels(midi, 0, False), [audio, midi], **meta)
    return found


def _rows(table: Path) -> list[dict[str, str]]:
    if table.suffix == ".csv":
        return table_rows(table, COLUMNS)
    told = parse_json(read_text(table), table)
    try:
        if isinstance(told, list):  # a row for each song in versions 1 and 2, then columns
            rows = [[row[name] for name in COLUMNS] for row in told]
        else:
            rows = [list(row) for row in zip(*(told[name].values() for name in COLUMNS), strict=True)]
    except (ValueError, KeyError, AttributeError, TypeError):
        rows = []
    if not rows:
        raise ValueError(f"{table}: is no table of MAESTRO with the columns {', '.join(COLUMNS)}")
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


CORPUS = Corpus(
    "maestro",
    "MAESTRO",
    LICENCE,
    find,
    editions=({"train": 962, "validation": 137, "test": 177},),
    splits=SPLITS,
)
