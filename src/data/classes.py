"""What of the data the task or the objective has no use for: said before training, not lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..config.names import counted
from ..config.objective import ObjectiveConfig
from ..config.presets import list_presets
from ..config.vocabularies import named_programs, program_name
from ..notes.note import SINGING_PROGRAM
from ..tokenizer import NoteTokenizer
from .segments import TrainingSet
from .songs import TaskView
from .store_format import only_pitched_program


def class_remarks(sets: Sequence[TrainingSet], tokenizer: NoteTokenizer) -> list[str]:
    """Sentences on what songs hold and the task does not take; none when all is taken."""
    nothing = nothing_to_learn(sets, tokenizer)
    return [*_unclassed_remarks(_notes(sets), tokenizer), *([nothing] if nothing else [])]


def _notes(sets: Sequence[TrainingSet]) -> dict[str, Counter[int]]:
    """Notes of each program, by set."""
    return {
        item.name: sum((item.store.notes_by_program(split) for split in item.splits), Counter[int]())
        for item in sets
    }


def octave_remarks(sets: Sequence[TrainingSet], objective: ObjectiveConfig) -> list[str]:
    """A sentence when the objective goes by the octave flag of songs and none of them has it, or all have."""
    flags = {
        bool(flag)
        for item in sets
        for split in item.splits
        for flag in item.store.index(split)["octave_unknown"]
    }
    by_flag = objective.octave_samples if objective.octave_weight > 0 else "all"
    if True not in flags and (by_flag == "unknown" or objective.hide_octaves):
        return [
            "the store knows the octave of every training song, so that --octave-samples unknown or "
            "--hide-octaves finds no sample; amt-prepare folder --octave-unknown marks songs"
        ]
    if False not in flags and by_flag == "known":
        return ["the store knows the octave of no training song: --octave-samples known finds no sample"]
    return []


def _unclassed_remarks(counts: Mapping[str, Counter[int]], tokenizer: NoteTokenizer) -> list[str]:
    """A sentence for each training set with notes of programs that belong to no class of the task."""
    remarks = []
    for name, programs in counts.items():
        strange = Counter({p: count for p, count in programs.items() if p in tokenizer.unclassed_programs})
        if not strange:
            continue
        fate = "are left out" if tokenizer.num_channels > 1 else "are written with their own program"
        remarks.append(
            f"{name}: {strange.total():,} of {counted(programs.total(), 'note')} have a program in no class "
            f"of {tokenizer.task.name} and {fate} ({named_programs(strange)})"
        )
    return remarks


def nothing_to_learn(sets: Sequence[TrainingSet], tokenizer: NoteTokenizer) -> str:
    """A sentence with ways out when the task transcribes not a single note of the songs; else ""."""
    task, counts = tokenizer.task, _notes(sets)
    programs = sum(counts.values(), Counter[int]())
    targets = TaskView(task).targets
    if targets & set(programs):
        return ""
    own = not set(counts) & set(list_presets())
    program = SINGING_PROGRAM if SINGING_PROGRAM in targets else min(targets)
    again = (
        f"if they are {program_name(program)}, prepare the data again with --program {program} (amt-prepare "
        f"folder ... --program {program} --overwrite); "
    )
    return (
        f"nothing to learn: {task.name} transcribes none of the {counted(programs.total(), 'note')} of these "
        f"songs{f' ({named_programs(programs)})' if programs else ''}; "
        f"{again if own and only_pitched_program(programs) is not None else ''}-tk chooses another task, "
        "-d other data"
    )
