"""The datasets behind the loaders: endless training batches, and whole songs for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..audio import cut_windows
from ..config.audio import AudioConfig
from ..notes.note import NOTE_DTYPE, note_programs
from ..tokenizer import NoteTokenizer
from .batch import Batch, ValidationItem
from .collate import notes_tensor, trim_to_bucket
from .sampling import batch_numbers, batches_of_worker
from .segments import Sample, SegmentMaker
from .songs import TaskView
from .store import SongStore


def collate_samples(samples: Sequence[Sample], tokenizer: NoteTokenizer, window_seconds: float) -> Batch:
    """Samples as one batch; labels are padded to the shortest bucket that holds them all."""
    labels = np.full(
        (len(samples), tokenizer.num_channels, tokenizer.sequence_length), tokenizer.pad_id, dtype=np.int64
    )
    for row, sample in zip(labels, samples, strict=True):
        row[:, : sample.labels.shape[1]] = sample.labels
    fully = [sample.fully_annotated for sample in samples]
    return Batch(
        audio=_stack_audio(samples),
        labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, tokenizer.pad_id))),
        notes=notes_tensor([sample.notes for sample in samples], window_seconds),
        dataset_index=torch.tensor([sample.dataset for sample in samples]),
        sample_number=torch.tensor([sample.number for sample in samples]),
        octave_unknown=torch.tensor([sample.octave_unknown for sample in samples]),
        channel_annotated=torch.from_numpy(np.stack([sample.channel_annotated for sample in samples])),
        channel_complete=torch.from_numpy(np.stack([sample.channel_complete for sample in samples])),
        num_truncated=torch.tensor(sum(sample.num_truncated for sample in samples)),
        fully_annotated=None if all(fully) else torch.tensor(fully),
    )


def _stack_audio(samples: Sequence[Sample]) -> Tensor:
    """(B, 1, S); in a loader process straight in shared memory, which saves a copy on the way out."""
    shape = (len(samples), 1, len(samples[0].audio))
    if get_worker_info() is None:
        audio = torch.empty(shape)
    else:
        size = 4 * shape[0] * shape[2]
        storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
        audio = torch.empty(0).set_(storage, 0, shape, (shape[2], shape[2], 1))
    np.stack([sample.audio for sample in samples], out=audio.numpy()[:, 0])
    return audio


class TrainingBatches(IterableDataset[Batch]):
    """Batches of one rank, in order, without end, from sample ``first_sample`` on."""

    def __init__(
        self,
        maker: SegmentMaker,
        tokenizer: NoteTokenizer,
        audio: AudioConfig,
        *,
        local_batch: int,
        rank: int = 0,
        world_size: int = 1,
        first_sample: int = 0,
    ) -> None:
        assert 0 <= rank < world_size
        self._maker = maker
        self._tokenizer = tokenizer
        self._seconds = audio.segment_seconds
        self._local_batch = local_batch
        self._rank = rank
        self._world_size = world_size
        self._first_sample = first_sample

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        worker, count = (0, 1) if info is None else (info.id, info.num_workers)
        for batch in batches_of_worker(worker, count):
            numbers = batch_numbers(
                batch, self._first_sample, self._rank, self._world_size, self._local_batch
            )
            samples = [self._maker.make(int(number)) for number in numbers]
            yield collate_samples(samples, self._tokenizer, self._seconds)


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


class EvaluationSongs(Dataset[ValidationItem]):
    """Whole songs of all evaluation sets, those of one rank: every rank has the same number of items."""

    def __init__(
        self,
        sets: Sequence[ScoredSet],
        tokenizer: NoteTokenizer,
        audio: AudioConfig,
        *,
        rank: int = 0,
        world_size: int = 1,
        limit: int = 0,
    ) -> None:
        assert 0 <= rank < world_size
        self._sets = list(sets)
        self._tokenizer = tokenizer
        self._audio = audio
        self._view = TaskView(tokenizer.task)
        places = []
        for number, item in enumerate(sets):
            songs = len(item.store.index(item.split))
            most = limit or item.max_songs
            songs = min(songs, most) if most else songs
            places += [(number, song) for song in range(songs)]
        empty = -len(places) % world_size
        places += [(0, -1)] * empty
        self._places = np.array(places, dtype=np.int64).reshape(-1, 2)[rank::world_size]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> ValidationItem:
        if not 0 <= index < len(self._places):
            raise IndexError(index)
        set_index, number = (int(value) for value in self._places[index])
        size = self._audio.segment_samples
        if number < 0:
            return ValidationItem(
                valid=False,
                set_index=set_index,
                song_id="",
                audio=torch.zeros(0, 1, size),
                labels=torch.zeros(
                    0, self._tokenizer.num_channels, self._tokenizer.sequence_length, dtype=torch.int64
                ),
                notes=np.zeros(0, dtype=NOTE_DTYPE),
                num_samples=0,
            )
        item = self._sets[set_index]
        song = item.store.song(item.split, number)
        sound = song.mix()
        windows = cut_windows(sound, size)
        annotated_programs = frozenset(program for stem in song.stem_programs for program in stem)
        known = self._view.known_programs(song.unannotated, annotated_programs)
        names, _ = self._view.usable_subtasks(known, annotated_programs)
        subtask = names[0] if names else None
        notes = self._tokenizer.target_notes(song.notes, subtask)
        labels = self._tokenizer.encode(notes, num_windows=len(windows), subtask=subtask)
        annotated, complete = self._view.annotated(known, subtask)
        if not known.all():
            notes = notes[known[note_programs(notes)]]
        return ValidationItem(
            valid=True,
            set_index=set_index,
            song_id=song.song_id,
            audio=torch.from_numpy(windows[:, None]),
            labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, self._tokenizer.pad_id))),
            notes=notes,
            num_samples=len(sound),
            subtask=subtask,
            known_programs=None if known.all() else known,
            channel_annotated=annotated,
            channel_complete=complete,
        )
