"""MIDI files of popular songs: the names of the tracks say who sings and who drums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...notes import read_midi
from ...notes.midi_file import parse_midi
from ...notes.note import (
    CHORUS_PROGRAM,
    DRUM_PROGRAM,
    SINGING_PROGRAM,
    NoteArray,
    note_programs,
    notes_to_array,
)
from .labels import naming

Keywords = Sequence[tuple[str, int]]
"""Part of a track's name in small letters, and the program (128 drums) of such tracks; the first counts."""

BACKING = (
    *(("backvoc", CHORUS_PROGRAM), ("backing voc", CHORUS_PROGRAM), ("back vo", CHORUS_PROGRAM)),
    *(("chorus", CHORUS_PROGRAM), ("harmony vo", CHORUS_PROGRAM)),
)
LEAD = (("vocal", SINGING_PROGRAM), ("melody", SINGING_PROGRAM), ("lead vo", SINGING_PROGRAM))
DRUMS = (("drum", DRUM_PROGRAM), ("percussion", DRUM_PROGRAM))


@dataclass(frozen=True)
class NamedTrackLabels:
    """Labels of a MIDI file whose track names count before its programs; calling it reads them."""

    path: Path
    keywords: Keywords
    sung: bool | None = None
    """Keep the notes of voices (True), those of all others (False), or all (None)."""

    def __call__(self) -> NoteArray:
        """The notes; raises ``ValueError`` that names the file."""
        with naming(self.path):
            names = [track.name for track in parse_midi(self.path.read_bytes()).tracks]
        programs = {}
        for name in names:
            for part, program in self.keywords:
                if part in name.lower():
                    programs[name] = program
                    break
        notes = notes_to_array(read_midi(self.path, track_programs=programs))
        voices = np.isin(note_programs(notes), (SINGING_PROGRAM, CHORUS_PROGRAM))
        return notes if self.sung is None else notes[voices == self.sung]
