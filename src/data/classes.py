"""What of the data the task or the objective has no use for: said before training, not lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..config.names import counted, listing
from ..config.objective import ObjectiveConfig
from ..config.presets import list_presets
from ..config.tasks import Task, likely_program, none_taken_text
from ..config.vocabularies import named_programs, program_name
from ..tokenizer import NoteTokenizer
from .segments import TrainingSet
from .store_format import only_pitched_program

_SHOWN = 4
"""Data sets named in a sentence."""


def class_remarks(sets: Sequence[TrainingSet], tokenizer: NoteTokenizer) -> list[str]:
    """Sentences on what songs hold and the task does not take; none when all is taken."""
    silent = nothing_to_learn(sets, tokenizer) or _silence_taught(sets, tokenizer.task)
    return [*_unclassed_remarks(_notes(sets), tokenizer), *([silent] if silent else [])]


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
    if False not in flags and objective.hide_octaves:
        return [
            "the store knows the octave of no training song: with --hide-octaves nothing teaches in which "
            "octave a sound is; add songs of known octave (-d takes several data sets)"
        ]
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
    if task.transcribed() & set(programs):
        return ""
    return (
        f"nothing to learn: {none_taken_text(task.name, programs, 'these songs')}; "
        f"{_prepare_again(task, programs, counts)}-tk chooses another task, -d other data"
    )


def _silence_taught(sets: Sequence[TrainingSet], task: Task) -> str:
    """A sentence on sets that have notes, none of them of the task; "" where each set has one.

    Songs of such a set are heard beside the empty labels of the task. That is meant for accompaniment, and an
    error where the notes lack their program. Sets without any note are meant.
    """
    silent = {
        name: programs
        for name, programs in _notes(sets).items()
        if programs and task.transcribed().isdisjoint(programs)
    }
    if not silent:
        return ""
    held = [f"{name} ({named_programs(programs)})" for name, programs in silent.items()]
    ways_out = [
        _prepare_again(task, programs, [name], of=f"those of {name}") for name, programs in silent.items()
    ]
    return (
        f"{task.name} transcribes no note of {listing(held, _SHOWN)}: beside the other data such songs teach "
        f"at most where to write nothing; {''.join(ways_out)}otherwise leave out of -d what is not meant so"
    )


def nothing_to_score(
    name: str, store: str, programs: Mapping[int, int], task: Task, subtask: str | None = None
) -> str:
    """A sentence with ways out on a set of songs that has no note to hold an estimate against.

    Args:
        name: of the set.
        store: name of its data set.
        programs: notes of each program (128: drums) in its songs.
        task: what is transcribed.
        subtask: the part of it that is asked for; None: all of it.
    """
    asked = task.title(subtask)
    if task.transcribed(subtask) & set(programs):
        return (
            f"nothing to score in {name}: its songs have the notes of {asked} written down in part only; "
            "-d chooses other data"
        )
    return (
        f"nothing to score in {name}: {none_taken_text(asked, programs, 'its songs')}; "
        f"{_prepare_again(task, programs, [store], subtask)}-d chooses other data; the task is that of the "
        "checkpoint (without one, -tk)"
    )


def _prepare_again(
    task: Task,
    programs: Mapping[int, int],
    names: Iterable[str],
    subtask: str | None = None,
    *,
    of: str = "they",
) -> str:
    """The way out where all notes may be of the task, had anybody said so; "" for data sets of presets."""
    if set(names) & set(list_presets()) or only_pitched_program(programs) is None:
        return ""
    program = likely_program(task.transcribed(subtask))
    return (
        f"if {of} are {program_name(program)}, prepare the data again with --program {program} (amt-prepare "
        f"folder ... --program {program} --overwrite); "
    )
