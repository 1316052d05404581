"""Names and colours of instruments in pictures, and the timbre family of a program."""

from __future__ import annotations

from ..notes.note import CHORUS_PROGRAM, DRUM_PROGRAM, SINGING_PROGRAM, Note

_FAMILIES = (
    ("Piano", "#4269d0"),
    ("Chromatic percussion", "#97bbf5"),
    ("Organ", "#8b6cc1"),
    ("Guitar", "#c98a2b"),
    ("Bass", "#6b4a2f"),
    ("Strings", "#3ca951"),
    ("Strings", "#3ca951"),  # ensembles
    ("Brass", "#d9a400"),
    ("Reed", "#a463f2"),
    ("Pipe", "#38b2ac"),
    ("Synth lead", "#ff725c"),
    ("Synth pad", "#f7a6c4"),
    ("Synth effects", "#9498a0"),
    ("Ethnic", "#7f8c4f"),
    ("Percussive", "#5f6b7a"),
    ("Sound effects", "#b0b0b0"),
)
SINGING = "Singing voice"
CHORUS = "Backing voices"
DRUMS = "Drums"


def instrument_family(note: Note) -> str:
    """Name of the family a note belongs to: voices and drums, else the General MIDI group of its program."""
    if note.is_drum or note.program == DRUM_PROGRAM:
        return DRUMS
    if note.program == SINGING_PROGRAM:
        return SINGING
    if note.program == CHORUS_PROGRAM:
        return CHORUS
    return _FAMILIES[min(max(note.program // 8, 0), len(_FAMILIES) - 1)][0]


def family_colour(family: str) -> str:
    """Colour of a family as ``#rrggbb``."""
    return {SINGING: "#d62750", CHORUS: "#f08cab", DRUMS: "#454b54", **dict(_FAMILIES)}[family]
