"""The true notes of a song, from a MIDI file, as far as the task transcribes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..config.names import counted, listing
from ..config.tasks import likely_program, none_taken_text
from ..config.vocabularies import program_name
from ..notes import read_midi, states_program
from ..notes.note import DRUM_PROGRAM, Note, array_to_notes, note_programs, notes_to_array
from ..tokenizer import NoteTokenizer

_SHOWN = 4
"""Most programs of a task that a sentence names."""


@dataclass(frozen=True)
class TrueNotes:
    """What an estimate is held against."""

    notes: list[Note]
    """Those that the task transcribes."""
    remark: str = ""
    """What the user should know of them, in a sentence."""
    choices: str = ""
    """Programs of the task, in words, where naming one for the pitched notes of the file would help."""


def read_reference(
    path: Path, tokenizer: NoteTokenizer, subtask: str | None = None, program: int | None = None
) -> TrueNotes:
    """The notes of a MIDI file that a task transcribes.

    A file that nowhere says a program (:func:`~amt.notes.states_program`) reads as piano. When the task
    transcribes no piano, nor anything else of the file that has a pitch, its pitched notes are taken for
    the task's own instrument, and the remark says so.

    Args:
        path: of the MIDI file.
        tokenizer: of the task.
        subtask: the part of the task that is asked for; None: all of it.
        program: of all pitched notes, whatever the file says (0 to 127).

    Raises:
        ValueError: names the file, when it cannot be read.
    """

    def targets(notes: list[Note]) -> list[Note]:
        return array_to_notes(tokenizer.target_notes(notes_to_array(notes), subtask))

    notes = read_midi(path, program=program)
    found = targets(notes)
    asked = tokenizer.task.title(subtask)
    pitched = [note for note in notes if not note.is_drum]
    known = tokenizer.task.transcribed(subtask) - {DRUM_PROGRAM}
    hopeless = not pitched or not known
    choices = listing([f"{item} {program_name(item)}" for item in sorted(known)], _SHOWN)
    if any(not note.is_drum for note in found) or (hopeless and (found or not notes)):
        return TrueNotes(found)
    if not hopeless and program is None and not states_program(path):
        own = likely_program(known)
        return TrueNotes(
            targets(read_midi(path, program=own)),
            f"{path} says no program, so its {counted(len(pitched), 'pitched note')} count as {own} "
            f"{program_name(own)}, which {asked} transcribes",
            choices,
        )
    counts = Counter(note_programs(notes_to_array(pitched if found else notes)).tolist())
    remark = f"nothing to score: {none_taken_text(asked, counts, str(path))}"
    return TrueNotes(found, remark, "" if hopeless else choices)
