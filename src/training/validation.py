"""Validation: decode whole songs, score the notes, add up over ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ..data.batch import ValidationItem
from ..data.collate import trim_to_bucket
from ..evaluation import MetricSums, score_keys, score_notes
from ..losses.token_ce import token_losses
from ..model.transcriber import Transcriber
from ..notes.note import Note, NoteArray
from ..tokenizer import NoteTokenizer

Vocabulary = Mapping[str, Sequence[int]]
Context = Callable[[], AbstractContextManager[object]]


@dataclass
class _Song:
    """A song while its windows are on their way."""

    song_id: str
    set_index: int
    notes: NoteArray
    num_windows: int
    step: int
    ids: list[Tensor] = field(default_factory=list)
    """Decoded rows (C, N) of the windows so far."""


class Validator:
    """Collects the songs of one validation and gives its numbers.

    Windows of several songs share a batch, so that short songs fill the device. Ranks never wait for each
    other until :meth:`finish`, where their sums are added once; the result is the same for any number of
    ranks. A song that cannot be scored is reported and left out.

    Args:
        model: the network itself, not a DDP wrapper.
        tokenizer: of the run.
        sets: name of each evaluation set to the classes scored apart, in the order of ``set_index``.
        batch_size: windows decoded together.
        world_size: ranks whose sums are added.
        write_output: called in a thread of its own with (song id, set name, step, notes).
    """

    def __init__(
        self,
        model: Transcriber,
        tokenizer: NoteTokenizer,
        sets: Mapping[str, Vocabulary],
        *,
        batch_size: int,
        world_size: int = 1,
        write_output: Callable[[str, str, int, list[Note]], object] | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._names = list(sets)
        self._vocabularies = list(sets.values())
        self._batch_size = batch_size
        self._world_size = world_size
        self._write_output = write_output
        self._writer: ThreadPoolExecutor | None = None
        self._writing: list[Future[object]] = []
        self._sums = MetricSums({name: score_keys(vocabulary) for name, vocabulary in sets.items()})
        self.start(nullcontext, torch.device("cpu"))

    def start(self, context: Context, device: torch.device) -> None:
        """Forget the last validation.

        Args:
            context: opens the precision the network runs in.
            device: where it runs.
        """
        self._context = context
        self._device = device
        self._sums.reset()
        self._queue: deque[tuple[_Song, Tensor, Tensor]] = deque()
        self._loss = torch.zeros(2, dtype=torch.float64)
        self._num_failed = 0

    def add(self, item: ValidationItem, step: int = 0) -> None:
        """Queue a song; decodes whenever enough windows wait. Empty places do nothing."""
        if not item.valid or not len(item.audio):
            return
        song = _Song(item.song_id, item.set_index, item.notes, len(item.audio), step)
        for audio, labels in zip(item.audio, item.labels, strict=True):
            self._queue.append((song, audio, labels))
        while len(self._queue) >= self._batch_size:
            self._decode_batch()

    def finish(self, step: int = 0) -> dict[str, float]:
        """Decode what waits, then the one meeting of the ranks: their sums are added.

        Returns:
            ``val_loss`` (token cross-entropy, mean over tokens), ``validation/({set}){key}`` and
            ``validation/macro_{key}`` (mean over the files of all sets); keys without a value are left out.
        """
        while self._queue:
            self._decode_batch()
        shared = torch.tensor(
            [*self._sums.to_list(), *self._loss.tolist(), float(self._num_failed)], dtype=torch.float64
        )
        if self._world_size > 1:
            shared = shared.to(self._device)
            dist.all_reduce(shared)
        *sums, loss, tokens, failed = shared.tolist()
        self._sums.load_list(sums)
        if failed:
            rank_zero_warn(
                f"validation at step {step}: {failed:.0f} songs could not be scored and are left out"
            )
        values = self._sums.compute("validation/")
        if tokens:
            values["val_loss"] = loss / tokens
        return values

    def close(self) -> None:
        """Wait for files that are still being written."""
        if self._writer is not None:
            self._writer.shutdown(wait=True)
            self._report_written()
            self._writer = None

    @torch.no_grad()
    def _decode_batch(self) -> None:
        taken = [self._queue.popleft() for _ in range(min(self._batch_size, len(self._queue)))]
        audio = torch.stack([window for _, window, _ in taken]).to(self._device, non_blocking=True)
        rows = _join([labels for _, _, labels in taken], self._tokenizer.pad_id)
        labels = torch.from_numpy(trim_to_bucket(rows, self._tokenizer.pad_id)).to(self._device)
        with self._context():
            encoded = self._model.encode(audio)
            logits = self._model.decode_logits(encoded, labels)
            mask, losses = token_losses(logits, labels, pad_id=self._tokenizer.pad_id)
            ids = self._model.decode_greedily(encoded).cpu()
        self._loss[0] += losses.sum(dtype=torch.float64).cpu()
        self._loss[1] += mask.sum().cpu()
        for (song, _, _), row in zip(taken, ids, strict=True):
            song.ids.append(row)
            if len(song.ids) == song.num_windows:
                self._score(song)

    def _score(self, song: _Song) -> None:
        try:
            estimate = self._tokenizer.decode(_join(song.ids, self._tokenizer.pad_id)).notes
            vocabulary = self._vocabularies[song.set_index]
            self._sums.update(song.set_index, score_notes(song.notes, estimate, vocabulary))
        except Exception as error:  # one bad song must not end a run of days
            self._num_failed += 1
            rank_zero_warn(f"validation: {song.song_id} could not be scored: {type(error).__name__}: {error}")
            return
        if self._write_output is not None:
            if self._writer is None:
                self._writer = ThreadPoolExecutor(1, thread_name_prefix="validation-output")
            self._report_written()
            name = self._names[song.set_index]
            self._writing.append(
                self._writer.submit(self._write_output, song.song_id, name, song.step, estimate)
            )

    def _report_written(self) -> None:
        """Errors of finished writes become warnings."""
        for future in [future for future in self._writing if future.done()]:
            self._writing.remove(future)
            error = future.exception()
            if error is not None:
                rank_zero_warn(f"validation output could not be written: {error}")


def _join(rows: Sequence[Tensor], pad_id: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(W, C, N) of rows (C, N) whose lengths differ: of other songs, or decoded in other batches."""
    length = max(row.shape[-1] for row in rows)
    joined = np.full((len(rows), rows[0].shape[0], length), pad_id, dtype=np.int64)
    for target, row in zip(joined, rows, strict=True):
        target[:, : row.shape[-1]] = row.numpy()
    return joined
