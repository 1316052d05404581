"""A song as training sees it: target notes ready to be cut, stems in groups that stand or fall together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..config.tasks import Task
from ..config.vocabularies import get_program_vocab
from ..notes.note import CHORUS_PROGRAM, DRUM_PROGRAM, SINGING_PROGRAM, NoteArray, note_programs
from ..tokenizer import NoteTokenizer
from .augment.cross import DRUM_CLASS
from .store import Song, SongStore

NUM_PROGRAMS = 129
"""MIDI programs and, last, drums."""
UNKNOWN_INSTRUMENTS = 129
"""Entry of a song's ``unannotated`` list: instruments that are heard but not known."""

_VOICES = frozenset({SINGING_PROGRAM, CHORUS_PROGRAM})


class TaskView:
    """What the data path needs to know of a task."""

    def __init__(self, task: Task) -> None:
        self.num_channels = task.num_channels
        self.classes = np.arange(NUM_PROGRAMS) + NUM_PROGRAMS
        for number, programs in enumerate(get_program_vocab(task.program_vocab).values()):
            self.classes[list(programs)] = number
        self.classes[DRUM_PROGRAM] = DRUM_CLASS
        self._task = task
        self.targets = task.targets()
        self.some_targets = task.target_programs is not None
        """Whether the task transcribes only some programs."""
        self._channels = task.program_channels()
        self.subtasks = dict(task.subtasks)
        self.target_list = np.array(sorted(self.targets))
        """The targets as an index array."""
        self._members: dict[str | None, npt.NDArray[np.bool_]] = {}

    def class_of(self, program: int) -> int:
        """Instrument class of a program; programs outside every class are classes of their own."""
        return int(self.classes[program])

    def known_programs(
        self, unannotated: Sequence[int], annotated_programs: frozenset[int]
    ) -> npt.NDArray[np.bool_]:
        """(129,) False for programs of a class that sounds, at least in part, without notes in the song.

        Args:
            unannotated: programs heard without notes; ``UNKNOWN_INSTRUMENTS`` stands for all the song does
                not annotate.
            annotated_programs: programs the song has notes of.
        """
        known = np.ones(NUM_PROGRAMS, dtype=bool)
        if not unannotated:
            return known
        missing = [program for program in unannotated if program < NUM_PROGRAMS]
        if UNKNOWN_INSTRUMENTS in unannotated:
            known[:] = np.isin(self.classes, self.classes[list(annotated_programs)])
            for name, part in self.subtasks.items():  # who wrote down one voice wrote down the voices
                if part.is_part and self.subtask_targets(name) & annotated_programs:
                    known[list(self.subtask_targets(name))] = True
        known[np.isin(self.classes, self.classes[missing])] = False
        return known

    def annotated(
        self, known: npt.NDArray[np.bool_], subtask: str | None = None
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """What the labels of each channel say: two (C,) masks.

        Args:
            known: of :meth:`known_programs`.
            subtask: the sub-task that is asked for.

        Returns:
            False in the first where nothing of a channel is annotated: its label is a guess and teaches
            nothing. False in the second where some of it is not: the label's notes are true, but not its
            silence.
        """
        members = self._members.get(subtask)
        if members is None:
            members = self._members[subtask] = self._channel_members(subtask)
        some: npt.NDArray[np.bool_] = np.asarray((members & known).any(axis=1))
        every: npt.NDArray[np.bool_] = np.asarray((known | ~members).all(axis=1))
        return some, every

    def _channel_members(self, subtask: str | None) -> npt.NDArray[np.bool_]:
        """(C, 129) whether a program is a target of a channel."""
        members = np.zeros((self.num_channels, NUM_PROGRAMS), dtype=bool)
        for program in self.subtask_targets(subtask):
            channel = self._channels.get(program) if self._channels else 0
            if channel is not None:
                members[channel, program] = True
        return members

    def subtask_targets(self, subtask: str | None) -> frozenset[int]:
        """Programs that a sub-task transcribes (128: drums); all of the task's for None."""
        return self._task.targets(subtask)

    def usable_subtasks(
        self, known: npt.NDArray[np.bool_], annotated_programs: frozenset[int]
    ) -> tuple[list[str], list[float]]:
        """Sub-tasks whose labels a song can give, and the share of each; none in a task without sub-tasks.

        A sub-task that is a part of the task needs notes in the song, and all it asks for must be annotated.
        Where no sub-task is, the first one is left, whose labels are then true in part.
        """
        names = [
            name
            for name, part in self.subtasks.items()
            if all(known[program] for program in self.subtask_targets(name))
            and not (part.is_part and not self.subtask_targets(name) & annotated_programs)
        ]
        names = names or list(self.subtasks)[:1]
        weights = [self.subtasks[name].weight for name in names]
        return names, [weight / sum(weights) for weight in weights]


class SongEntry:
    """A song's notes and stem groups, computed once per song."""

    def __init__(self, song: Song, tokenizer: NoteTokenizer, view: TaskView) -> None:
        self.song = song
        notes = tokenizer.target_notes(song.notes)
        self.notes: NoteArray = notes[np.argsort(notes["onset"], kind="stable")]
        """Target notes of the task, by onset."""
        self.latest_offsets = np.maximum.accumulate(self.notes["offset"]) if len(notes) else np.zeros(0)
        programs = song.stem_programs
        self.stem_groups = _group_stems(programs, {int(p) for p in np.unique(note_programs(self.notes))})
        """Stem numbers of each group G: stems that share a program cannot be told apart in the notes."""
        self.group_programs = [
            frozenset(p for stem in group for p in programs[stem]) for group in self.stem_groups
        ]
        self.group_classes = [frozenset(view.class_of(p) for p in group) for group in self.group_programs]
        self.group_is_target = np.array(
            [view.some_targets and bool(group & view.targets) for group in self.group_programs], dtype=bool
        )
        self.stem_is_target = np.zeros(len(programs), dtype=bool)
        for stems, target in zip(self.stem_groups, self.group_is_target, strict=True):
            self.stem_is_target[list(stems)] = target or not view.some_targets
        self.stem_is_drum = np.array([bool(p) and set(p) == {DRUM_PROGRAM} for p in programs], dtype=bool)
        self.can_shift = not any(DRUM_PROGRAM in p and set(p) != {DRUM_PROGRAM} for p in programs)
        """Whether every drum stands in a stem without other instruments."""
        self.group_sings = np.array([bool(group & _VOICES) for group in self.group_programs], dtype=bool)
        """Whether a voice is among a group's programs."""
        self.unannotated = song.unannotated
        self.annotated_programs = frozenset(p for group in self.group_programs for p in group)
        known = view.known_programs(self.unannotated, self.annotated_programs)
        self.subtasks, self.subtask_shares = view.usable_subtasks(known, self.annotated_programs)
        """Sub-tasks that training may ask for, and how often."""
        self._group_of = np.zeros(NUM_PROGRAMS, dtype=np.int64)
        for number, group in enumerate(self.group_programs):
            self._group_of[list(group)] = number

    @property
    def num_groups(self) -> int:
        """Number of stem groups."""
        return len(self.stem_groups)

    def notes_near(self, begin: float, end: float) -> NoteArray:
        """Target notes that start before ``end`` and end at or after ``begin`` (seconds)."""
        first = int(np.searchsorted(self.latest_offsets, begin, side="left"))
        last = int(np.searchsorted(self.notes["onset"], end, side="left"))
        near = self.notes[first:last]
        return near[np.where(near["is_drum"], near["onset"], near["offset"]) >= begin]

    def groups_of(self, notes: NoteArray) -> npt.NDArray[np.int64]:
        """Group of each note (M,)."""
        groups: npt.NDArray[np.int64] = self._group_of[note_programs(notes)]
        return groups


def _group_stems(programs: Sequence[Sequence[int]], noted: set[int]) -> list[tuple[int, ...]]:
    if not noted <= {p for group in programs for p in group}:
        return [tuple(range(len(programs)))] if programs else []
    groups: list[tuple[set[int], list[int]]] = []
    for stem, own in enumerate(programs):
        joined, members = set(own), [stem]
        rest = []
        for group in groups:
            if group[0] & joined:
                joined |= group[0]
                members = group[1] + members
            else:
                rest.append(group)
        groups = [*rest, (joined, members)]
    return sorted(tuple(sorted(members)) for _, members in groups)


class SongCache:
    """The entries of the songs used last; its size bounds the memory of a worker."""

    def __init__(
        self, stores: Sequence[tuple[SongStore, str]], tokenizer: NoteTokenizer, size: int = 512
    ) -> None:
        self._stores = stores
        self._tokenizer = tokenizer
        self._view = TaskView(tokenizer.task)
        self._size = size
        self._entries: OrderedDict[tuple[int, int], SongEntry] = OrderedDict()

    def get(self, part: int, song: int) -> SongEntry:
        """Entry of a song of store and split number ``part``."""
        key = (part, song)
        entry = self._entries.get(key)
        if entry is None:
            store, split = self._stores[part]
            entry = SongEntry(store.song(split, song), self._tokenizer, self._view)
            self._entries[key] = entry
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(key)
        return entry

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_entries": OrderedDict()}
