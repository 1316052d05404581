"""RWC Popular Music (Goto et al. 2002): a hundred songs with MIDI files aligned to the recordings.

Recordings ``RM-P001.wav`` (or another format; any name with ``P001``), or those of the CDs as
``rwc-p-mDD/T.wav`` when ``rwc-p.csv`` says which piece is track T of disc DD. ``RM-P001.SMF_SYNC.MID``
are the MIDI files; those in a folder whose name holds "bass", if there are any, hold the bass alone with
its octave put right.

``full`` scores all notes: tracks named after the melody or vocals are the lead voice, after the chorus
the backing voices, after drums the drums; else the files say the programs. ``bass`` scores the bass
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...notes import read_midi
from ...notes.note import NoteArray, note_programs, notes_to_array
from .corpus import OTHERS_HEARD, Corpus, Found, Labels, audio_files, whole
from .labels import MidiLabels, read_text
from .track_names import BACKING, DRUMS, LEAD, NamedTrackLabels

LICENCE = "agreement with its makers, for research"
KEYWORDS = (*DRUMS, *BACKING, *LEAD)
BASSES = range(32, 40)
FINGERED_BASS = 33


@dataclass(frozen=True)
class BassLabels:
    """The notes of the bass programs of a MIDI file; calling it reads them."""

    path: Path

    def __call__(self) -> NoteArray:
        """The notes."""
        notes = notes_to_array(read_midi(self.path))
        return notes[np.isin(note_programs(notes), BASSES)]


def find(source: Path) -> Found:
    """All pieces with sound and MIDI."""
    found = Found()
    sounds = {number: path for path in audio_files(source) if (number := _piece(path))}
    sounds |= _tracks_of_discs(source)
    midis = [path for path in source.rglob("*") if path.suffix.lower() in (".mid", ".midi")]
    full = _by_piece(path for path in midis if not _is_bass(path, source))
    bass = _by_piece(path for path in midis if _is_bass(path, source))
    for number, sound in sorted(sounds.items()):
        meta = {"source": f"RWC-MDB-P-2001/{number:03d}", "licence": LICENCE}
        name = f"RM-P{number:03d}"
        if number in full:
            labels = NamedTrackLabels(full[number], KEYWORDS)
            found.add(name, ("full",), [whole("mix", sound)], labels, [sound, full[number]], **meta)
        midi = bass.get(number) if bass else full.get(number)
        if midi is not None:
            own: Labels = MidiLabels(midi, FINGERED_BASS, drums=False) if bass else BassLabels(midi)
            found.add(
                f"{name}_bass", ("bass",), [whole("mix", sound)], own, [sound, midi], **meta, **OTHERS_HEARD
            )
    if not bass and full:
        found.remarks.append("no MIDI files of the bass alone: it is taken from the full ones")
    return found


def _piece(path: Path) -> int:
    """Number of the piece that a file name says; 0 for none."""
    found = re.search(r"(?<![A-Za-z])P(\d{3})(?!\d)", path.name, re.IGNORECASE)
    return int(found[1]) if found else 0


def _by_piece(paths: Iterable[Path]) -> dict[int, Path]:
    """Files by the number in their names; of two of a piece the aligned one counts."""
    ranked = sorted(paths, key=lambda path: ("sync" in str(path).lower(), str(path)))
    return {number: path for path in ranked if (number := _piece(path))}


def _is_bass(path: Path, source: Path) -> bool:
    return any("bass" in part.lower() for part in path.relative_to(source).parent.parts)


def _tracks_of_discs(source: Path) -> dict[int, Path]:
    """Piece number to the recording on its disc."""
    table = next(iter(sorted(source.rglob("rwc-p.csv"))), None)
    if table is None:
        return {}
    discs = {
        (int(folder[1]), int(path.stem)): path
        for path in audio_files(source)
        if path.stem.isdecimal() and (folder := re.fullmatch(r"rwc-p-m(\d+)", path.parent.name.lower()))
    }
    places = {}
    for line in read_text(table).splitlines():
        # Piece, disc and track come first; copies of the table part them by commas or semicolons.
        numbers = [re.search(r"\d+", cell) for cell in re.split(r"[,;\t]", line)[:3]]
        if len(numbers) == 3 and all(numbers):
            piece, disc, track = (int(found[0]) for found in numbers if found)
            if (disc, track) in discs:
                places[piece] = discs[disc, track]
    return places


CORPUS = Corpus(
    "rwc_pop",
    "RWC Popular Music",
    LICENCE,
    find,
    editions=({"full": 100, "bass": 90}, {"full": 100, "bass": 100}),
    splits=("full", "bass"),
)
