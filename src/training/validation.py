"""Validation: decode whole songs, score the notes, add up over ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ..config.names import counted
from ..data.batch import ValidationItem
from ..data.collate import trim_to_bucket
from ..data.scored import comparable_notes
from ..evaluation import HEADLINE_KEYS, MetricSums, Scoring
from ..losses.token_ce import token_losses
from ..model.transcriber import Transcriber
from ..notes.note import Note, NoteArray, array_to_notes
from ..tokenizer import NoteTokenizer
from .media import EXAMPLE_SECONDS, Example
from .objective import label_mask
from .speech import warn_of_own

Context = Callable[[], AbstractContextManager[object]]


@dataclass
class _Song:
    """A song while its windows are on their way."""

    song_id: str
    set_index: int
    notes: NoteArray
    num_samples: int
    num_windows: int
    step: int
    subtask: str | None
    known_programs: npt.NDArray[np.bool_] | None
    annotated: Tensor
    """(C,) bool as in ``Batch.channel_annotated``."""
    complete: Tensor
    """(C,) bool as in ``Batch.channel_complete``."""
    sound: npt.NDArray[np.float32] | None = None
    """Its beginning, where it is shown as an example."""
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
        sets: name of each evaluation set to what is scored of its songs, in the order of ``set_index``.
        batch_size: windows decoded together.
        world_size: ranks whose sums are added.
        write_output: called in a thread of its own with (song id, set name, step, notes).
    """

    def __init__(
        self,
        model: Transcriber,
        tokenizer: NoteTokenizer,
        sets: Mapping[str, Scoring],
        *,
        batch_size: int,
        world_size: int = 1,
        write_output: Callable[[str, str, int, list[Note]], object] | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._names = list(sets)
        self._scoring = list(sets.values())
        self._label_mask = label_mask(tokenizer)
        self._batch_size = batch_size
        self._world_size = world_size
        self._write_output = write_output
        self.on_progress: Callable[[int], object] = lambda songs: None
        """Called after each batch of windows with the songs of this rank that are done."""
        self._show: Callable[[Example], object] | None = None
        self._num_shown = 0
        self._writer: ThreadPoolExecutor | None = None
        self._writing: list[Future[object]] = []
        self._sums = MetricSums({name: scoring.keys() for name, scoring in sets.items()}, HEADLINE_KEYS)
        self.start(nullcontext, torch.device("cpu"))

    def show_examples(self, number: int, show: Callable[[Example], object]) -> None:
        """Give the first songs of each validation on this rank to ``show``, in the thread of the outputs."""
        self._num_shown, self._show = number, show

    def keys(self) -> set[str]:
        """The names :meth:`finish` may give, ``val_loss`` aside."""
        return set(self._sums.compute("validation/", skip_empty=False))

    def start(
        self, context: Context, device: torch.device, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        """Forget the last validation.

        Args:
            context: opens the precision the network runs in.
            device: where it runs.
            interrupted: whether this validation is to end at once; asked before each batch of windows.
        """
        self._interrupted = interrupted
        self.cut = False
        """Some rank was interrupted: the numbers of this validation are not those of all songs."""
        self._context = context
        self._device = device
        self._sums.reset()
        self._queue: deque[tuple[_Song, Tensor, Tensor]] = deque()
        self._loss = torch.zeros(2, dtype=torch.float64)
        self._num_done = 0
        self._num_failed = 0
        self._examples_left = self._num_shown

    def add(self, item: ValidationItem, step: int = 0) -> None:
        """Queue a song; decodes whenever enough windows wait. Empty places do nothing."""
        if not item.valid or not len(item.audio):
            return
        song = _Song(
            item.song_id,
            item.set_index,
            item.notes,
            item.num_samples,
            len(item.audio),
            step,
            item.subtask,
            item.known_programs,
            self._channels(item.channel_annotated),
            self._channels(item.channel_complete),
            self._example_sound(item),
        )
        for audio, labels in zip(item.audio, item.labels, strict=True):
            self._queue.append((song, audio, labels))
        while len(self._queue) >= self._batch_size and not self._interrupted():
            self._decode_batch()

    def finish(self, step: int = 0) -> dict[str, float]:
        """Decode what waits, then the one meeting of the ranks: their sums are added.

        Returns:
            ``val_loss`` (token cross-entropy, mean over tokens), ``validation/({set}){key}`` and
            ``validation/macro_{key}`` (mean over the files of all sets), and ``validation/micro_{key}`` for
            the keys of whole files (their counts pooled); keys without a value are left out. Nothing when
            it was :attr:`cut` short.
        """
        while self._queue and not self._interrupted():
            self._decode_batch()
        cut = float(self._interrupted())
        shared = torch.tensor(
            [*self._sums.to_list(), *self._loss.tolist(), float(self._num_failed), cut], dtype=torch.float64
        )
        if self._world_size > 1:
            shared = shared.to(self._device)
            dist.all_reduce(shared)
        *sums, loss, tokens, failed, cut = shared.tolist()
        self.cut = cut > 0
        if self.cut:
            return {}
        self._sums.load_list(sums)
        if failed:
            rank_zero_warn(
                f"validation at step {step}: {counted(round(failed), 'song')} left out, not to be scored"
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
            mask, losses = token_losses(logits, self._taught(labels, taken), pad_id=self._tokenizer.pad_id)
            ids = self._model.decode_greedily(encoded, prefix=self._prefix(taken)).cpu()
        self._loss[0] += losses.sum(dtype=torch.float64).cpu()
        self._loss[1] += mask.sum().cpu()
        for (song, _, _), row in zip(taken, ids, strict=True):
            song.ids.append(row)
            if len(song.ids) == song.num_windows:
                self._score(song)
                self._num_done += 1
        self.on_progress(self._num_done)

    def _channels(self, mask: npt.NDArray[np.bool_] | None) -> Tensor:
        if mask is None:
            return torch.ones(self._tokenizer.num_channels, dtype=torch.bool)
        return torch.from_numpy(mask)

    def _taught(self, labels: Tensor, taken: Sequence[tuple[_Song, Tensor, Tensor]]) -> Tensor:
        """Labels (B, C, N) without what training would leave out."""
        annotated = torch.stack([song.annotated for song, _, _ in taken]).to(self._device)
        complete = torch.stack([song.complete for song, _, _ in taken]).to(self._device)
        return self._label_mask(labels, annotated, complete)

    def _prefix(self, taken: Sequence[tuple[_Song, Tensor, Tensor]]) -> Tensor | None:
        """(B, P) task tokens of what each song is asked for."""
        if not self._tokenizer.prefix_length:
            return None
        rows = [self._tokenizer.prefix_ids(song.subtask) for song, _, _ in taken]
        return torch.tensor(rows, device=self._device)

    def _score(self, song: _Song) -> None:
        try:
            estimate = self._tokenizer.decode(_join(song.ids, self._tokenizer.pad_id)).notes
            estimate = comparable_notes(estimate, song.known_programs)
            seconds = song.num_samples / self._tokenizer.sample_rate
            counts = self._scoring[song.set_index].counts(song.notes, estimate, duration=seconds)
            self._sums.update(song.set_index, counts.scores(), counts.ratios())
        except Exception as error:  # one bad song must not end a run of days
            self._num_failed += 1
            warn_of_own(f"validation: {song.song_id} could not be scored: {type(error).__name__}: {error}")
            return
        name = self._names[song.set_index]
        if self._write_output is not None:
            self._later(partial(self._write_output, song.song_id, name, song.step, estimate))
        if self._show is not None and song.sound is not None:
            reference = array_to_notes(song.notes)
            example = Example(song.song_id, name, song.step, estimate, reference, song.sound)
            self._later(partial(self._show, example))

    def _example_sound(self, item: ValidationItem) -> npt.NDArray[np.float32] | None:
        if self._examples_left == 0:
            return None
        self._examples_left -= 1
        length = min(item.num_samples, round(EXAMPLE_SECONDS * self._tokenizer.sample_rate))
        return item.audio.flatten()[:length].numpy().copy()

    def _later(self, work: Callable[[], object]) -> None:
        """In a thread of its own: no rank waits for another's disk or network."""
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="validation-output")
        self._report_written()
        self._writing.append(self._writer.submit(work))

    def _report_written(self) -> None:
        """Errors of finished writes become warnings."""
        for future in [future for future in self._writing if future.done()]:
            self._writing.remove(future)
            error = future.exception()
            if error is not None:
                warn_of_own(f"validation output could not be written: {error}")


def _join(rows: Sequence[Tensor], pad_id: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(W, C, N) of rows (C, N) whose lengths differ: of other songs, or decoded in other batches."""
    length = max(row.shape[-1] for row in rows)
    joined = np.full((len(rows), rows[0].shape[0], length), pad_id, dtype=np.int64)
    for target, row in zip(joined, rows, strict=True):
        target[:, : row.shape[-1]] = row.numpy()
    return joined
