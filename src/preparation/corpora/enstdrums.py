"""ENST-Drums (Gillet and Richard 2006): three drummers, also with the accompaniment they played to.

``drummer_N/annotation/NAME.txt`` (time and instrument code in a line),
``drummer_N/audio/wet_mix/NAME.wav`` and, for the names with ``minus-one``,
``drummer_N/audio/accompaniment/NAME.wav``.

Splits of each drummer, by what is heard: ``drummer_N_dtd`` drums alone (hits, phrases, solos), ``_dtp``
the drums of the minus-one takes alone, ``_dtm_r1`` and ``_dtm_r2`` with accompaniment at the levels
:data:`LEVELS`; ``_dtm`` is ``_dtm_r1``. ``all_dtd``, and ``train``, ``validation`` and ``test`` with
``_dtp`` and ``_dtm`` (70, 15 and 15 % of the accompaniments, drawn by a hash of their names), go across
drummers.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...audio.reading import Samples, read_audio
from ...data.shares import split_of
from ...notes.note import DRUM_PROGRAM, NoteArray
from .corpus import OTHERS_HEARD, Corpus, Found, Stem, whole
from .labels import drum_notes, read_text

LICENCE = "for research, on request"
PITCHES = {
    "sweep": 0,
    "sticks": 1,
    "rs": 2,
    "c": 3,
    "bd": 36,
    "cs": 37,
    "sd": 38,
    "lft": 41,
    "chh": 42,
    "lt": 45,
    "ohh": 46,
    "lmt": 47,
    "mt": 48,
    "cr": 49,
    "ltr": 50,
    "rc": 51,
    "ch": 52,
    "spl": 55,
    "cb": 56,
    "mtr": 58,
}
"""Instrument code to drum pitch. Sweeps, sticks and claps are no drum of General MIDI and keep pitches of
their own."""
LEVELS = {"r1": (0.75, 0.25), "r2": (0.6, 0.4)}
"""Peak of the drums and of the accompaniment."""
DRUMMERS = (1, 2, 3)
SHARES = (0.15, 0.15)
SPLITS = (
    *(f"drummer_{n}_{kind}" for n in DRUMMERS for kind in ("dtd", "dtp", "dtm", "dtm_r1", "dtm_r2")),
    *(f"{part}_{kind}" for part in ("train", "validation", "test") for kind in ("dtp", "dtm")),
    "all_dtd",
)


@dataclass(frozen=True)
class HitLabels:
    """Labels of an annotation file; calling it reads them."""

    path: Path

    def __call__(self) -> NoteArray:
        """The notes; raises ``ValueError`` that names file and line."""
        hits: list[tuple[float, int]] = []
        unknown: set[str] = set()
        for number, line in enumerate(read_text(self.path).splitlines(), 1):
            words = line.split()
            if not words:
                continue
            code = words[-1].lower()
            try:
                time = float(words[0])
            except ValueError:
                time = -1.0
            if len(words) != 2 or time < 0:
                raise ValueError(
                    f"{self.path}, line {number}: expected time and instrument code, not {line.strip()!r}"
                )
            # Codes of drums that stand twice in a kit end in a number, snares without wires in a dash.
            name = code if code in PITCHES else code.rstrip("0123456789-")
            if name in PITCHES:
                hits.append((time, PITCHES[name]))
            else:
                unknown.add(code)
        if unknown:
            warnings.warn(
                f"{self.path}: {', '.join(sorted(unknown))} is no known drum; left out", stacklevel=2
            )
        return drum_notes(hits)


@dataclass(frozen=True)
class LevelledSound:
    """A file brought to a peak; calling it reads it."""

    path: Path
    peak: float

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,)."""
        audio = read_audio(self.path, sample_rate)
        top = float(np.abs(audio).max(initial=0.0))
        return audio * np.float32(self.peak / top) if top else audio


def find(source: Path) -> Found:
    """All takes of all drummers."""
    found = Found()
    folders = {path.parent.parent for path in source.rglob("annotation/*.txt")}
    for folder in sorted(folders):
        number = re.fullmatch(r"drummer_([123])", folder.name)
        if number is None:
            found.remarks.append(f"{folder}: is no folder drummer_1, drummer_2 or drummer_3; left out")
            continue
        for annotation in sorted((folder / "annotation").glob("*.txt")):
            _add_take(found, folder, annotation)
    return found


def _add_take(found: Found, folder: Path, annotation: Path) -> None:
    name, drummer = annotation.stem, folder.name
    drums = folder / "audio" / "wet_mix" / f"{name}.wav"
    labels = HitLabels(annotation)
    meta = {"source": f"ENST-Drums/{drummer}/{name}", "licence": LICENCE}
    alone, files = [whole("drums", drums, (DRUM_PROGRAM,))], [drums, annotation]
    if "minus-one" not in name:
        found.add(f"{drummer}__{name}_dtd", [f"{drummer}_dtd", "all_dtd"], alone, labels, files, **meta)
        return
    accompaniment = folder / "audio" / "accompaniment" / f"{name}.wav"
    piece = re.sub(r"^\d+_", "", name).rpartition("_")[0] or name
    part = split_of(piece, 0, *SHARES)
    found.add(f"{drummer}__{name}_dtp", [f"{drummer}_dtp", f"{part}_dtp"], alone, labels, files, **meta)
    for ending, (loud, soft) in LEVELS.items():
        stems = [
            Stem("drums", LevelledSound(drums, loud), (DRUM_PROGRAM,)),
            Stem("accompaniment", LevelledSound(accompaniment, soft), ()),
        ]
        splits = [f"{drummer}_dtm_{ending}"]
        if ending == "r1":
            splits += [f"{drummer}_dtm", f"{part}_dtm"]
        song_id = f"{drummer}__{name}_dtm_{ending}"
        found.add(song_id, splits, stems, labels, [*files, accompaniment], **meta, **OTHERS_HEARD)


CORPUS = Corpus("enstdrums", "ENST-Drums", LICENCE, find, splits=SPLITS, num_songs=318 + 2 * 64)
