"""Which notes of the data the task leaves out or has no class for: said before training, not lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..config.vocabularies import program_name
from ..notes.note import DRUM_PROGRAM
from ..tokenizer import NoteTokenizer
from .segments import TrainingSet

SHOWN_PROGRAMS = 8
"""Programs named one by one; the rest is counted."""


def unclassed_remarks(sets: Sequence[TrainingSet], tokenizer: NoteTokenizer) -> list[str]:
    """A sentence for each training set with notes of programs that belong to no class of the task."""
    remarks = []
    for item in sets:
        counts: Counter[int] = Counter()
        for split in item.splits:
            counts.update(item.store.notes_by_program(split))
        total = counts.total()
        strange = [
            (program, count)
            for program, count in counts.most_common()
            if program in tokenizer.unclassed_programs
        ]
        if not strange:
            continue
        named = [f"{program} {program_name(program)}: {count}" for program, count in strange[:SHOWN_PROGRAMS]]
        if len(strange) > SHOWN_PROGRAMS:
            named.append(f"and {len(strange) - SHOWN_PROGRAMS} more")
        fate = "are left out" if tokenizer.num_channels > 1 else "are written with their own program"
        remarks.append(
            f"{item.name}: {sum(count for _, count in strange)} of {total} notes have a program in no class "
            f"of {tokenizer.task.name} and {fate} ({', '.join(named)})"
        )
    return remarks


def untaught_remarks(sets: Sequence[TrainingSet], tokenizer: NoteTokenizer) -> list[str]:
    """One sentence when not a single note of the training songs is one that the task transcribes."""
    task = tokenizer.task
    counts: Counter[int] = Counter()
    for item in sets:
        for split in item.splits:
            counts.update(item.store.notes_by_program(split))
    for program in counts:
        is_target = task.target_programs is None or program in task.target_programs
        if task.transcribes_drums if program == DRUM_PROGRAM else is_target:
            return []
    most = ", ".join(
        f"{program} {program_name(program)}: {count}" for program, count in counts.most_common(SHOWN_PROGRAMS)
    )
    return [
        f"nothing to learn: {task.name} transcribes none of the {counts.total()} notes of the training songs"
        f"{f' ({most})' if most else ''}; -tk chooses another task"
    ]
