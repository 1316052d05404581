"""Notes, and MIDI files of notes."""

from .cleaning import clean_notes, sort_notes, trim_overlaps, validate_notes
from .midi_read import MidiWarning, read_midi, states_program
from .midi_write import write_midi
from .note import (
    CHORUS_PROGRAM,
    DRUM_PROGRAM,
    NOTE_DTYPE,
    SINGING_PROGRAM,
    Note,
    NoteArray,
    array_to_notes,
    notes_to_array,
)

__all__ = [
    "CHORUS_PROGRAM",
    "DRUM_PROGRAM",
    "NOTE_DTYPE",
    "SINGING_PROGRAM",
    "MidiWarning",
    "Note",
    "NoteArray",
    "array_to_notes",
    "clean_notes",
    "notes_to_array",
    "read_midi",
    "sort_notes",
    "states_program",
    "trim_overlaps",
    "validate_notes",
    "write_midi",
]
