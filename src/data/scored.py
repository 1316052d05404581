"""What a song is scored by: the notes an estimate is held against, the same in validation and in test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..config.tasks import Task
from ..config.vocabularies import get_drum_vocab, get_program_vocab
from ..evaluation import Scoring
from ..notes.note import DRUM_PROGRAM, Note, NoteArray, note_programs
from ..tokenizer import NoteTokenizer
from .songs import TaskView
from .store import Song, SongStore


@dataclass(frozen=True)
class ScoredSet:
    """One evaluation set of a run."""

    name: str
    store: SongStore
    split: str
    eval_vocab: str | None
    """Classes scored one by one; None takes the task's."""
    eval_drum_vocab: str | None = None
    """Classes of drum hits; None takes those of the task's drum tokens."""
    octave_free: tuple[str, ...] = ()
    """Classes that are also scored by pitch class."""
    max_songs: int = 0
    """Only the first N songs; 0 takes all."""

    def num_songs(self, limit: int = 0) -> int:
        """Songs of the set that are scored; ``limit``, if not 0, goes before ``max_songs``."""
        songs = len(self.store.index(self.split))
        most = limit or self.max_songs
        return min(songs, most) if most else songs


def scoring_of(scored: ScoredSet, task: Task) -> Scoring:
    """What is scored of the songs of a set: its classes, or those of the task where it names none."""
    vocab = get_program_vocab(scored.eval_vocab or task.eval_vocab)
    drum_vocab = get_drum_vocab(scored.eval_drum_vocab or task.drum_vocab)
    # A mix may score a preset by other classes than its own; those it has in common stay octave-free.
    return Scoring(vocab, drum_vocab, tuple(name for name in scored.octave_free if name in vocab))


@dataclass(frozen=True)
class Reference:
    """The true notes of a song, as far as a task transcribes them and somebody wrote them down."""

    target_notes: NoteArray
    """Notes of the sub-task, also those of instruments of which the song annotates only some."""
    subtask: str | None
    """The sub-task the song can be asked for."""
    known: npt.NDArray[np.bool_]
    """(129,) False for programs (128: drums) that sound without notes in the song."""

    @property
    def notes(self) -> NoteArray:
        """The notes to hold an estimate against."""
        if self.known.all():
            return self.target_notes
        kept: NoteArray = self.target_notes[self.known[note_programs(self.target_notes)]]
        return kept

    def comparable(self, estimate: Iterable[Note]) -> list[Note]:
        """An estimate without the notes that nobody could have annotated: neither right nor wrong."""
        return comparable_notes(estimate, self.known)


def comparable_notes(estimate: Iterable[Note], known: npt.NDArray[np.bool_] | None) -> list[Note]:
    """The notes of an estimate whose program is known (None: all are)."""
    if known is None:
        return list(estimate)
    return [note for note in estimate if known[DRUM_PROGRAM if note.is_drum else note.program]]


def reference_of(
    song: Song, tokenizer: NoteTokenizer, view: TaskView, forced: tuple[str | None] | None = None
) -> Reference:
    """The reference of a song.

    Args:
        song: of a store.
        tokenizer: of the task.
        view: the task, made once for all songs.
        forced: the sub-task (or None) that the song is asked for; without it the first that its annotation
            allows.
    """
    annotated = frozenset(program for stem in song.stem_programs for program in stem)
    known = view.known_programs(song.unannotated, annotated)
    if forced is None:
        names, _ = view.usable_subtasks(known, annotated)
        forced = (names[0] if names else None,)
    (subtask,) = forced
    return Reference(tokenizer.target_notes(song.notes, subtask), subtask, known)
