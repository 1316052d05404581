"""Melodies that Sheet Sage (Donahue et al. 2022) wrote down: audio beside MIDI of the same name.

Where a MIDI file has a track whose name holds "melody", it alone counts, else all tracks but drums do.
The melody is that of a lead voice (program 100) among instruments that nobody wrote down, and its octave
is not reliable. Folders named ``train``, ``validation`` (``valid``) and ``test`` are the splits; without
them a hash of the names decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...data.shares import SPLITS
from ...notes import read_midi
from ...notes.midi_file import parse_midi
from ...notes.note import SINGING_PROGRAM, NoteArray, note_programs, notes_to_array
from .corpus import OTHERS_HEARD, Corpus, Found, whole
from .labels import naming
from .pairs import id_of, pairs_in, split_of_pair

LICENCE = "not public"
_MELODY = 127
"""Stands for the melody while a file is read; no other track gets it."""


@dataclass(frozen=True)
class MelodyLabels:
    """The melody of a MIDI file; calling it reads it."""

    path: Path

    def __call__(self) -> NoteArray:
        """The notes, as those of a lead voice."""
        with naming(self.path):
            tracks = [track.name for track in parse_midi(self.path.read_bytes()).tracks]
        melodies = {name: _MELODY for name in tracks if "melody" in name.lower()}
        others = {name: 0 for name in tracks if name and name not in melodies}
        notes = notes_to_array(
            read_midi(self.path, program=0, drums=None, track_programs={**others, **melodies})
        )
        melody = notes[note_programs(notes) == _MELODY] if melodies else notes[~notes["is_drum"]]
        melody = np.array(melody)
        melody["program"] = SINGING_PROGRAM
        return melody


def find(source: Path) -> Found:
    """All pairs."""
    found = Found()
    for pair in pairs_in(source, found):
        meta = {"source": f"Sheet Sage/{pair.name}", "licence": LICENCE, "octave_unknown": True}
        found.add(
            id_of(pair),
            (split_of_pair(pair),),
            [whole("mix", pair.audio, (SINGING_PROGRAM,))],
            MelodyLabels(pair.midi),
            [pair.audio, pair.midi],
            **meta,
            **OTHERS_HEARD,
        )
    return found


CORPUS = Corpus("sheetsage", "Sheet Sage melodies", LICENCE, find, splits=SPLITS)
