"""The tokenizer: notes of a song to token ids of its windows, and back."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..config.audio import SHIFT_STEPS_PER_SECOND
from ..config.experiment import Experiment
from ..config.tasks import Task, get_task
from ..notes.cleaning import clean_notes
from ..notes.note import (
    DRUM_PROGRAM,
    NOTE_DTYPE,
    Note,
    NoteArray,
    array_to_notes,
    note_programs,
    notes_to_array,
)
from . import encoding
from .encoding import Ints, PreparedNotes
from .song_decoder import SongDecoder
from .vocabulary import EOS_ID, NO_CHANNEL, PAD_ID, build_tables


@dataclass(frozen=True)
class DecodeResult:
    """Notes of a song and what was wrong with its tokens."""

    notes: list[Note]
    """Cleaned, sorted by onset; times in seconds."""
    errors: Counter[str] = field(default_factory=Counter)
    """How often each error of ``TokenErrors`` occurred."""


class NoteTokenizer:
    """Token ids of one task for windows of one length. Axes: W windows, C channels, N tokens, M notes."""

    pad_id = PAD_ID
    eos_id = EOS_ID
    seconds_per_step = 1 / SHIFT_STEPS_PER_SECOND

    def __init__(
        self, task: Task, *, segment_samples: int, max_length: int = 1024, sample_rate: int = 16000
    ) -> None:
        if segment_samples < 1 or sample_rate < 1:
            raise ValueError(
                f"segments of {segment_samples} samples at {sample_rate} Hz cannot be: both must be positive"
            )
        if max_length < 2:
            raise ValueError(f"max_length {max_length} is too short: the tie and end tokens need 2")
        self.task = task
        self.segment_samples = segment_samples
        self.sample_rate = sample_rate
        self.max_length = min(max_length, task.max_note_tokens) if task.max_note_tokens else max_length
        self._tables = build_tables(task, segment_samples, sample_rate)
        self.layout = self._tables.layout
        self.vocab_size = self.layout.size
        self.num_channels = task.num_channels
        self.tie_id = self._tables.tie_id
        self.prefixes = {name: self._prefix(subtask.tokens) for name, subtask in task.subtasks.items()}
        """Sub-task name to the ids of its task tokens."""
        self.prefix_length = max((len(ids) for ids in self.prefixes.values()), default=0)
        self.sequence_length = self.max_length + self.prefix_length
        """Longest sequence a network has to read: prefix and notes."""
        self.truncated = 0
        """Sequences cut to ``max_length`` by this object so far."""

    @classmethod
    def from_task(
        cls, name: str, *, segment_samples: int, max_length: int = 1024, sample_rate: int = 16000
    ) -> NoteTokenizer:
        """The tokenizer of a task of the table.

        ``max_length`` limits the tokens of one channel of one window, end token included; tasks with a
        length of their own keep the smaller one.
        """
        return cls(
            get_task(name), segment_samples=segment_samples, max_length=max_length, sample_rate=sample_rate
        )

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> NoteTokenizer:
        """The tokenizer of a run."""
        return cls.from_task(
            experiment.task,
            segment_samples=experiment.audio.segment_samples,
            max_length=experiment.event_length,
            sample_rate=experiment.audio.sample_rate,
        )

    def token_range(self, kind: str) -> range:
        """Ids of one kind of token: shift, pitch, velocity, tie, program, drum, extra or special."""
        return self.layout.token_range(kind)

    def describe(self, ids: Iterable[int]) -> list[str]:
        """Tokens as text, such as ``["tie", "shift 50", "program 0", "velocity 1", "pitch 60", "EOS"]``."""
        return [self.layout.describe(int(token)) for token in ids]

    def prefix_ids(self, subtask: str | None) -> list[int]:
        """Ids of the task tokens that announce a sub-task; none for None."""
        if subtask is None:
            return []
        self.task.subtask(subtask)
        return list(self.prefixes[subtask])

    def _prefix(self, tokens: Sequence[str]) -> tuple[int, ...]:
        first = self.token_range("extra").start
        return tuple(first + self.task.extra_tokens.index(token) for token in tokens)

    def subtask_notes(self, notes: NoteArray, subtask: str | None) -> NoteArray:
        """Those of the task's notes that a sub-task transcribes; all for None."""
        if subtask is None:
            return notes
        return notes[np.isin(note_programs(notes), list(self.task.targets(subtask)))]

    @property
    def unclassed_programs(self) -> frozenset[int]:
        """Target programs that belong to no class of the task.

        A task of one stream writes their notes with the program itself, one with channels leaves them out.
        """
        without: list[int] = np.flatnonzero(~self._tables.has_class).tolist()
        return self.task.targets() & set(without)

    def written_programs(
        self, programs: Iterable[int] | None = None, subtask: str | None = None
    ) -> npt.NDArray[np.bool_]:
        """(C, 129): which program tokens each channel writes, by their number; 128 is drums.

        ``programs`` (128: drums) limits what is written to the tokens of those; None: all targets.
        """
        wanted = self.task.targets(subtask)
        if programs is not None:
            wanted &= set(programs)
        tables = self._tables
        first = self.token_range("program").start
        written = np.zeros((self.num_channels, DRUM_PROGRAM + 1), dtype=np.bool_)
        for program in sorted(wanted):
            channel = int(tables.channel[program])
            if channel == NO_CHANNEL:
                continue
            if program == DRUM_PROGRAM:
                written[channel, DRUM_PROGRAM] = True
            else:
                written[channel, tables.program_token[tables.program_class[program]] - first] = True
        return written

    def target_notes(self, notes: Iterable[Note] | NoteArray, subtask: str | None = None) -> NoteArray:
        """The notes this task, or one of its sub-tasks, transcribes, cleaned, with their own programs and
        pitches.

        Left out: programs that are no target or have no channel, and drums unless the task has them.
        Notes that the task's tokens cannot tell apart (equal pitch, and programs of one class if the
        task merges classes) do not overlap in the result.
        """
        array = notes_to_array(notes)
        encoding.check_range(array)
        program = note_programs(array)
        wanted = self._tables.channel[program] != NO_CHANNEL
        wanted &= np.isin(program, list(self.task.targets(subtask)))
        return clean_notes(array[wanted], self._tables.program_class[program[wanted]])

    def prepare(self, notes: Iterable[Note] | NoteArray) -> PreparedNotes:
        """Sort the events of one song, once; its windows are then cheap to encode.

        Notes are taken as they are: pass those of :meth:`target_notes`.
        """
        return encoding.prepare_notes(notes_to_array(notes), self._tables)

    def encode_prepared(
        self,
        prepared: PreparedNotes,
        start_samples: Sequence[int] | npt.NDArray[np.integer],
        subtask: str | None = None,
    ) -> Ints:
        """Windows that start at those samples, int64 (W, C, max_length), right-padded with PAD.

        A sequence that is too long is cut between two events, still ends with EOS, and is counted in
        ``truncated``. With ``subtask`` each row begins with its task tokens and is longer by their number.
        """
        samples = np.asarray(start_samples, dtype=np.int64)
        if samples.ndim != 1:
            raise ValueError("start_samples must be a list of sample numbers")
        starts = samples / self.sample_rate
        ends = (samples + self.segment_samples) / self.sample_rate
        items = encoding.window_items(prepared, starts, ends, self._tables)
        tokens, lengths = self._tokens(items)
        padded = encoding.pad_rows(tokens, lengths, self.max_length)
        return self._announce(padded.reshape(len(samples), self.num_channels, self.max_length), subtask)

    def encode(
        self,
        notes: Iterable[Note] | NoteArray,
        *,
        num_windows: int | None = None,
        start_samples: Sequence[int] | npt.NDArray[np.integer] | None = None,
        subtask: str | None = None,
    ) -> Ints:
        """Token ids int64 (W, C, max_length) of windows of a song.

        Either ``num_windows`` windows back to back from sample 0, or windows at ``start_samples``. With
        ``subtask`` each row begins with its task tokens and is longer by their number; the notes are taken
        as they are (:meth:`target_notes` filters).
        """
        if (num_windows is None) == (start_samples is None):
            raise ValueError("encode needs either num_windows or start_samples")
        if start_samples is None:
            start_samples = np.arange(num_windows or 0) * self.segment_samples
        return self.encode_prepared(self.prepare(notes), start_samples, subtask)

    def encode_window(self, notes: NoteArray, start_seconds: float = 0.0, subtask: str | None = None) -> Ints:
        """Label of one window, int64 (C, n) without padding beyond the longest channel.

        For training segments whose notes have been changed: pass the notes near the window (all that
        sound in it) with times in the same clock as ``start_seconds``, in any order. An onset before the
        window makes a tie, an offset after it writes no event. Notes shorter than 10 ms get 10 ms, and a
        note ends where the next one of its pitch and program starts; which programs and drums are targets
        is not looked at. For notes of :meth:`target_notes` it equals the row of :meth:`encode_prepared`.
        With ``subtask`` each row begins with its task tokens.
        Raises ``ValueError`` for pitches or programs out of range and times that are not finite.
        """
        encoding.check_range(notes)
        encoding.check_times(notes)
        end = start_seconds + self.segment_samples / self.sample_rate
        items = encoding.single_window_items(notes, start_seconds, end, self._tables)
        tokens, lengths = self._tokens(items)
        return self._announce(encoding.pad_rows(tokens, lengths, int(lengths.max())), subtask)

    def _announce(self, rows: Ints, subtask: str | None) -> Ints:
        """Rows (..., N) with the task tokens of a sub-task in front."""
        if subtask is None:
            return rows
        prefix = np.array(self.prefix_ids(subtask), dtype=np.int64)
        return np.concatenate([np.broadcast_to(prefix, (*rows.shape[:-1], len(prefix))), rows], axis=-1)

    def _tokens(self, items: Ints) -> tuple[Ints, Ints]:
        """Flat tokens and row lengths of sorted items, long rows cut."""
        tokens = encoding.items_to_tokens(items, self._tables)
        flat, lengths = encoding.flatten(tokens)
        if not len(flat) or lengths.max() <= self.max_length:
            return flat, lengths
        counts = np.count_nonzero(tokens, axis=1)
        row = items >> encoding.ROW_BIT
        keep = np.ones(len(items), dtype=bool)
        for number in np.flatnonzero(lengths > self.max_length):
            self.truncated += 1
            where = np.flatnonzero(row == number)
            keep[where] = encoding.shorten(items[where], counts[where], self.max_length)
        return encoding.flatten(tokens[keep])

    def decode(
        self,
        ids: npt.NDArray[np.integer] | Sequence[Sequence[Sequence[int]]],
        start_samples: Sequence[int] | npt.NDArray[np.integer] | None = None,
        *,
        seams: Sequence[int] | npt.NDArray[np.integer] | None = None,
        start_from_ties: bool = False,
    ) -> DecodeResult:
        """Notes of a song from the ids (W, C, N) of its windows, in order.

        Never raises for what the ids are; what cannot be read is counted.

        Args:
            ids: token ids.
            start_samples: (W,) first sample of each window; None: back to back from sample 0.
            seams: (W,) for overlapping windows the sample from which on each window is believed, until the
                next one is; the first is usually 0. None: each is believed from its start.
            start_from_ties: a tied note that was not sounding before starts at its window instead of being
                ignored.
        """
        array = np.asarray(ids)
        if array.ndim != 3 or array.shape[1] != self.num_channels:
            raise ValueError(
                f"ids of {self.task.name} must have the shape (windows, {self.num_channels}, tokens), "
                f"not {array.shape}"
            )
        if start_samples is None:
            start_samples = np.arange(len(array)) * self.segment_samples
        if len(start_samples) != len(array):
            raise ValueError(f"{len(array)} windows but {len(start_samples)} start samples")
        starts = (np.asarray(start_samples, dtype=np.int64) / self.sample_rate).tolist()
        regions: list[tuple[float, float] | None] = [None] * len(array)
        if seams is not None:
            if len(seams) != len(array):
                raise ValueError(f"{len(array)} windows but {len(seams)} seams")
            edges = [*(np.asarray(seams, dtype=np.int64) / self.sample_rate).tolist(), math.inf]
            regions = list(itertools.pairwise(edges))
        is_end = array == EOS_ID
        lengths = np.where(is_end.any(axis=2), is_end.argmax(axis=2), array.shape[2])
        decoder = self.song_decoder(start_from_ties)
        for rows, ends, start, region in zip(array, lengths.tolist(), starts, regions, strict=True):
            decoder.read_window(
                [row[:end].tolist() for row, end in zip(rows, ends, strict=True)], start, region
            )
        decoder.finish()
        notes = clean_notes(np.array(decoder.take_rows(), dtype=NOTE_DTYPE))
        return DecodeResult(array_to_notes(notes), decoder.errors)

    def song_decoder(self, start_from_ties: bool = False) -> SongDecoder:
        """Reads the windows of one song in order, as :meth:`decode` does; its notes are not cleaned."""
        return SongDecoder(self.layout, self.num_channels, start_from_ties)
