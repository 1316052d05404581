"""The datasets behind the loaders: endless training batches, and whole songs for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..audio import cut_windows
from ..config.audio import AudioConfig
from ..notes.note import NOTE_DTYPE
from ..tokenizer import NoteTokenizer
from .batch import Batch, ValidationItem
from .collate import notes_tensor, trim_to_bucket
from .patience import read_patiently
from .sampling import batch_numbers, batches_of_worker
from .scored import ScoredSet, reference_of
from .segments import Sample, SegmentMaker
from .slots import AudioSlots
from .songs import TaskView


def collate_samples(
    samples: Sequence[Sample],
    tokenizer: NoteTokenizer,
    window_seconds: float,
    slots: AudioSlots | None = None,
) -> Batch:
    """Samples as one batch; labels are padded to the shortest bucket that holds them all.

    Args:
        samples: of the batch.
        tokenizer: that made their labels.
        window_seconds: length of a segment.
        slots: where a loader process puts the sound.
    """
    labels = np.full(
        (len(samples), tokenizer.num_channels, tokenizer.sequence_length), tokenizer.pad_id, dtype=np.int64
    )
    for row, sample in zip(labels, samples, strict=True):
        row[:, : sample.labels.shape[1]] = sample.labels
    fully = [sample.fully_annotated for sample in samples]
    moving = any(sample.moving is not None for sample in samples)
    return Batch(
        audio=_stack_audio([sample.audio for sample in samples], slots),
        labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, tokenizer.pad_id))),
        notes=notes_tensor([sample.notes for sample in samples], window_seconds),
        dataset_index=torch.tensor([sample.dataset for sample in samples]),
        sample_number=torch.tensor([sample.number for sample in samples]),
        octave_unknown=torch.tensor([sample.octave_unknown for sample in samples]),
        channel_annotated=torch.from_numpy(np.stack([sample.channel_annotated for sample in samples])),
        channel_complete=torch.from_numpy(np.stack([sample.channel_complete for sample in samples])),
        num_truncated=torch.tensor(sum(sample.num_truncated for sample in samples)),
        fully_annotated=None if all(fully) else torch.tensor(fully),
        moving=_stack_audio([sample.moving for sample in samples], slots) if moving else None,
        speeds=torch.tensor([sample.speed for sample in samples]) if moving else None,
    )


def _stack_audio(rows: Sequence[npt.NDArray[np.float32] | None], slots: AudioSlots | None) -> Tensor:
    """(B, 1, S), zeros for None; in a free slot where there is one."""
    size = next(len(row) for row in rows if row is not None)
    shape = (len(rows), 1, size)
    audio = slots.take(shape) if slots is not None else None
    if audio is None:
        audio = torch.empty(shape)
    for target, row in zip(audio.numpy()[:, 0], rows, strict=True):
        target[:] = 0.0 if row is None else row
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
        self._audio = audio
        self._local_batch = local_batch
        self._rank = rank
        self._world_size = world_size
        self._first_sample = first_sample

    def sound_slots(self, num_workers: int, batches: int) -> AudioSlots:
        """Memory for the sound of so many batches of each of the loader processes about to be forked."""
        per_worker = 2 * batches  # a batch may have a second sound, its ``moving``
        return AudioSlots(num_workers, per_worker, self._local_batch * self._audio.segment_samples)

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        return self.stream(0, 1) if info is None else self.stream(info.id, info.num_workers)

    def stream(self, worker: int, num_workers: int, slots: AudioSlots | None = None) -> Iterator[Batch]:
        """The batches that one loader process makes; their sound is in ``slots`` while some are free."""
        for batch in batches_of_worker(worker, num_workers):
            numbers = batch_numbers(
                batch, self._first_sample, self._rank, self._world_size, self._local_batch
            )
            samples = [read_patiently(partial(self._maker.make, int(number))) for number in numbers]
            yield collate_samples(samples, self._tokenizer, self._audio.segment_seconds, slots)


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
            places += [(number, song) for song in range(item.num_songs(limit))]
        empty = -len(places) % world_size
        places += [(0, -1)] * empty
        self._places = np.array(places, dtype=np.int64).reshape(-1, 2)[rank::world_size]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> ValidationItem:
        if not 0 <= index < len(self._places):
            raise IndexError(index)
        return read_patiently(partial(self._item, index))

    def _item(self, index: int) -> ValidationItem:
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
        reference = reference_of(song, self._tokenizer, self._view)
        labels = self._tokenizer.encode(
            reference.target_notes, num_windows=len(windows), subtask=reference.subtask
        )
        annotated, complete = self._view.annotated(reference.known, reference.subtask)
        return ValidationItem(
            valid=True,
            set_index=set_index,
            song_id=song.song_id,
            audio=torch.from_numpy(windows[:, None]),
            labels=torch.from_numpy(np.ascontiguousarray(trim_to_bucket(labels, self._tokenizer.pad_id))),
            notes=reference.notes,
            num_samples=len(sound),
            subtask=reference.subtask,
            known_programs=None if reference.known.all() else reference.known,
            channel_annotated=annotated,
            channel_complete=complete,
        )
