"""Which notes of the data have no class in the task: said once, before training, not lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..config.vocabularies import program_name
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
