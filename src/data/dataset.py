"""The datasets behind the loaders: endless training batches, and whole songs for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..audio import cut_windows
from ..config.audio import AudioConfig
from ..notes.note import NOTE_DTYPE
from ..tokenizer import NoteTokenizer
from .batch import Batch, ValidationItem
from .collate import notes_tensor, trim_to_bucket
from .sampling import batch_numbers, batches_of_worker
from .segments import Sample, SegmentMaker
from .store import SongStore


def collate_samples(samples: Sequence[Sample], tokenizer: NoteTokenizer, window_seconds: float) -> Batch:
    """Samples as one batch; labels are padded to the shortest bucket that holds them all."""
    labels = np.full(
        (len(samples), tokenizer.num_channels, tokenizer.max_length), tokenizer.pad_id, dtype=np.int64
    )
    for row, sample in zip(labels, samples, strict=True):
        row[:, : sample.labels.shape[1]] = sample.labels
    return Batch(
        audio=torch.from_numpy(np.stack([sample.audio for sample in samples])[:, None]),
        labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, tokenizer.pad_id))),
        notes=notes_tensor([sample.notes for sample in samples], window_seconds),
        dataset_index=torch.tensor([sample.dataset for sample in samples]),
        sample_number=torch.tensor([sample.number for sample in samples]),
        octave_unknown=torch.tensor([sample.octave_unknown for sample in samples]),
        channel_annotated=torch.from_numpy(np.stack([sample.channel_annotated for sample in samples])),
    )


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
        places = []
        for number, item in enumerate(sets):
            songs = len(item.store.index(item.split))
            songs = min(songs, limit) if limit else songs
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
                    0, self._tokenizer.num_channels, self._tokenizer.max_length, dtype=torch.int64
                ),
                notes=np.zeros(0, dtype=NOTE_DTYPE),
            )
        item = self._sets[set_index]
        song = item.store.song(item.split, number)
        windows = cut_windows(song.mix(), size)
        notes = self._tokenizer.target_notes(song.notes)
        labels = self._tokenizer.encode(notes, num_windows=len(windows))
        return ValidationItem(
            valid=True,
            set_index=set_index,
            song_id=song.song_id,
            audio=torch.from_numpy(windows[:, None]),
            labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, self._tokenizer.pad_id))),
            notes=notes,
        )
