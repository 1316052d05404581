"""The table of tasks: what is transcribed, in which classes, in how many decoding channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from .names import counted, unknown_name
from .vocabularies import DRUM_CLASS, get_drum_vocab, get_program_vocab, named_programs

_MC13_CHANNELS = (*get_program_vocab("gm_plus"), DRUM_CLASS)
VOICE_PROGRAMS = (100, 101)
"""Programs of lead and backing voices."""


@dataclass(frozen=True)
class SubTask:
    """A part of a task that task tokens in front of a sequence ask for."""

    tokens: tuple[str, ...]
    """The task tokens that announce it, in order."""
    target_programs: tuple[int, ...] | None = None
    """Programs it transcribes; None: all of the task."""
    transcribes_drums: bool = True
    """Whether drum notes are targets."""
    weight: float = 1.0
    """Share of the training segments that ask for it, relative to the other sub-tasks that a song allows."""

    @property
    def is_part(self) -> bool:
        """Whether it leaves out notes that the task has."""
        return self.target_programs is not None or not self.transcribes_drums


@dataclass(frozen=True)
class Task:
    """One row of the task table. A new task is one more row."""

    name: str
    """Key of the table (flag ``-tk``)."""
    program_vocab: str
    """Instrument classes of the program tokens, a name of ``get_program_vocab``."""
    drum_vocab: str = "gm"
    """Drum classes of the drum tokens, a name of ``get_drum_vocab``."""
    channels: tuple[str, ...] = ()
    """Classes with a decoding channel of their own, in order: names of ``channel_vocab`` and
    ``Drums``. Empty: one stream."""
    channel_vocab: str = "gm_plus"
    """Vocabulary that says which program goes into which channel."""
    max_note_tokens: int = 0
    """Longest sequence of one channel; 0: whatever the run sets (flag ``-el``)."""
    extra_tokens: tuple[str, ...] = ()
    """Task tokens; their ids follow the special tokens and shift all others."""
    subtasks: Mapping[str, SubTask] = field(default_factory=dict, hash=False)
    """Name to sub-task; the first is asked for unless another is named. All prefixes have one length."""
    target_programs: tuple[int, ...] | None = None
    """Programs the task transcribes; None: all."""
    transcribes_drums: bool = True
    """Whether drum notes are targets."""
    eval_vocab: str = "gm_plus"
    """Classes of the scores per instrument, a name of ``get_program_vocab``."""
    merge_classes: bool = False
    """Put programs in place of their class before the events are built, so that two programs of one
    class are one instrument: no repeated program tokens and no ambiguous ties. Off in the published
    tasks, whose tokens must not change."""

    def __post_init__(self) -> None:
        get_program_vocab(self.program_vocab)
        get_program_vocab(self.eval_vocab)
        get_drum_vocab(self.drum_vocab)
        known = {*get_program_vocab(self.channel_vocab), DRUM_CLASS}
        for channel in self.channels:
            if channel not in known:
                raise unknown_name("channel", channel, known)
        for subtask in self.subtasks.values():
            for token in subtask.tokens:
                if token not in self.extra_tokens:
                    raise unknown_name(f"task token of {self.name}", token, self.extra_tokens)
        lengths = {len(subtask.tokens) for subtask in self.subtasks.values()}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(f"the prefixes of sub-tasks of {self.name} must be of one length, at least 1")
        if any(subtask.weight <= 0 for subtask in self.subtasks.values()):
            raise ValueError(f"the weights of the sub-tasks of {self.name} must be positive")

    @property
    def num_channels(self) -> int:
        """Number of decoding channels, at least 1."""
        return max(1, len(self.channels))

    @property
    def default_subtask(self) -> str | None:
        """Name of the sub-task that is asked for unless another is named; None: the task has no sub-tasks."""
        return next(iter(self.subtasks), None)

    def subtask(self, name: str) -> SubTask:
        """The sub-task of that name; ``ValueError`` with the known names if there is none."""
        if name not in self.subtasks:
            raise unknown_name(f"sub-task of {self.name}", name, self.subtasks)
        return self.subtasks[name]

    def title(self, subtask: str | None = None) -> str:
        """Its name in messages, with that of the sub-task which is asked for."""
        return f"{self.name} ({subtask})" if subtask else self.name

    def targets(self, subtask: str | None = None) -> frozenset[int]:
        """Programs (128: drums) that the task, or one of its sub-tasks, transcribes."""
        found = {*range(129)}
        for part in (self,) if subtask is None else (self, self.subtask(subtask)):
            if part.target_programs is not None:
                found &= {*part.target_programs, 128}
            if not part.transcribes_drums:
                found.discard(128)
        return frozenset(found)

    def transcribed(self, subtask: str | None = None) -> frozenset[int]:
        """The targets without those that no channel writes."""
        found = self.targets(subtask)
        return found & set(self.program_channels()) if self.channels else found

    def program_channels(self) -> dict[int, int]:
        """Program (128: drums) to channel; programs without a channel are missing. Empty: one stream."""
        vocab = {**get_program_vocab(self.channel_vocab), DRUM_CLASS: (128,)}
        return {program: channel for channel, name in enumerate(self.channels) for program in vocab[name]}


_SINGING_SUBTASKS = {
    "default": SubTask(("transcribe_all", "task"), weight=2.0),
    "singing-only": SubTask(("transcribe_singing", "task"), VOICE_PROGRAMS, transcribes_drums=False),
}
_MT3_FULL_PLUS = Task("mt3_full_plus", "mt3_full_plus")
_FSINGLE = Task("mc13_fsingle", "gm_plus", merge_classes=True)
_MC13 = Task("mc13", "gm_plus", channels=_MC13_CHANNELS, max_note_tokens=512)

_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("mt3_midi", "gm", eval_vocab="gm"),
        Task("mt3_midi_plus", "gm_plus"),
        Task("mt3_full", "mt3_full", eval_vocab="gm"),
        _MT3_FULL_PLUS,
        replace(_MT3_FULL_PLUS, name="mt3_full_plus_all_cross_final"),
        Task("gm_ext_plus", "gm_ext_plus"),
        Task(
            "singing_v1",
            "mt3_full_plus",
            extra_tokens=("task", "transcribe_singing", "transcribe_all"),
            subtasks=_SINGING_SUBTASKS,
        ),
        Task(
            "singing_drum_v1",
            "mt3_full_plus",
            extra_tokens=("task", "transcribe_singing", "transcribe_drum", "transcribe_all"),
            subtasks={
                **_SINGING_SUBTASKS,
                "drum-only": SubTask(("transcribe_drum", "task"), target_programs=()),
            },
        ),
        Task(
            "exc_v1",
            "mt3_full_plus",
            extra_tokens=("transcribe", "all", ":"),
            subtasks={"default": SubTask(("transcribe", "all", ":"))},
        ),
        _FSINGLE,
        replace(
            _FSINGLE,
            name="mc13_fsingle_vocal",
            target_programs=VOICE_PROGRAMS,
            transcribes_drums=False,
            eval_vocab="singing_solo",
        ),
        _MC13,
        replace(_MC13, name="mc13_256", max_note_tokens=256),
        replace(_MC13, name="mc13_full_plus", program_vocab="mt3_full_plus"),
        replace(_MC13, name="mc13_full_plus_256", program_vocab="mt3_full_plus", max_note_tokens=256),
    )
}


def get_task(name: str) -> Task:
    """The task of that name; ``ValueError`` with the near names if there is none."""
    if name not in _TASKS:
        raise unknown_name("task", name, _TASKS)
    return _TASKS[name]


def add_task(task: Task) -> None:
    """Make a task of a script known in this process, under its name (flag ``-tk``).

    Whatever reads its checkpoints later has to add it as well; a task to keep is a row of this file.

    Raises:
        ValueError: another task has that name.
    """
    if _TASKS.get(task.name, task) != task:
        raise ValueError(f"there is a task {task.name!r} already and it is another one; choose another name")
    _TASKS[task.name] = task


def list_tasks() -> list[str]:
    """Names of all tasks, sorted."""
    return sorted(_TASKS)


def likely_program(targets: Collection[int]) -> int:
    """The program of a task that notes which say none are taken for: the lead voice where it has one."""
    lead, _ = VOICE_PROGRAMS
    return lead if lead in targets else min(targets)


def none_taken_text(task: str, programs: Mapping[int, int], of: str) -> str:
    """That a task transcribes no note of a kind, and which notes these are.

    Args:
        task: its name, with that of a sub-task.
        programs: notes of each program (128: drums).
        of: where the notes are.
    """
    found = f" ({named_programs(programs)})" if programs else ""
    return f"{task} transcribes none of the {counted(sum(programs.values()), 'note')} of {of}{found}"
