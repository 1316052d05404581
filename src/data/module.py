"""The LightningDataModule of a run."""

from __future__ import annotations

import atexit
import multiprocessing
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from ..config.experiment import Experiment
from ..config.names import counted, listing
from ..tokenizer import NoteTokenizer
from .batch import Batch, ValidationItem
from .classes import class_remarks, nothing_to_learn, octave_remarks
from .contents import Contents, contents_of
from .dataset import EvaluationSongs, TrainingBatches
from .forked import ForkedBatches
from .scored import ScoredSet
from .segments import SegmentMaker
from .shares import store_way_out
from .sources import open_presets
from .weights import WeightTable
from .workers import leave_signals_to_the_run, raise_file_limit, shared_memory_problem, worker_context

MAX_EVALUATION_WORKERS = 2
"""Loader processes in evaluation: each holds whole songs, and the network is the slow part there."""
_SHOWN = 4
"""Data sets named one by one; the rest is counted."""


class _Loader(DataLoader[Any]):
    """Loads in processes that do not outlive this one."""

    def __iter__(self) -> Any:
        iterator = super().__iter__()
        atexit.register(_end_processes, weakref.ref(iterator))
        return iterator


def _end_processes(reference: weakref.ref[Any]) -> None:
    """When an error ends this process in the middle of a batch, its loader processes are still there: Python
    would send them a signal that they ignore, and wait for them for ever."""
    iterator = reference()
    processes = getattr(iterator, "_workers", ())
    if iterator is not None and processes:
        iterator._shutdown_workers()
        for process in processes:
            if process.is_alive():
                process.kill()


class _ForkedLoader(DataLoader[Any]):
    """Loads training batches in forked processes, without the threads and queues of torch's loader."""

    _kept: ForkedBatches | None = None

    def __iter__(self) -> Any:
        if self._kept is not None:
            self._kept.restart()
            return self._kept
        assert isinstance(self.dataset, TrainingBatches)
        assert self.prefetch_factor is not None
        batches = ForkedBatches(self.dataset, self.num_workers, self.prefetch_factor, pin=self.pin_memory)
        atexit.register(_close, weakref.ref(batches))
        if self.persistent_workers:
            self._kept = batches
        return batches


def _close(reference: weakref.ref[ForkedBatches]) -> None:
    batches = reference()
    if batches is not None:
        batches.close()


class TranscriptionData(pl.LightningDataModule):
    """Training batches and evaluation songs of a run.

    Stores are opened here, at once, so that whatever is missing is said before anything is built. The
    training loader has no length and no end. Sharding over ranks is its own work: use the trainer with
    ``use_distributed_sampler=False``.

    Args:
        experiment: the run.
        tokenizer: of the run's task and segment length.
        data_home: folder of the prepared stores.
        rank: of this process.
        world_size: number of processes.
        first_sample: global number of the first training sample; on resume the number consumed so far.
        excluded: presets left out (``AMT_EXCLUDE_PRESETS``).
        context: how loader processes start: ``fork``, ``spawn`` or ``forkserver``; None chooses.

    Raises:
        ValueError: names every store that is missing or broken and the command that builds it.
    """

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: NoteTokenizer,
        data_home: str | Path,
        rank: int = 0,
        world_size: int = 1,
        first_sample: int = 0,
        *,
        excluded: Sequence[str] = (),
        context: str | None = None,
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.tokenizer = tokenizer
        self.rank = rank
        self.world_size = world_size
        self.first_sample = first_sample
        self._context = context or worker_context()
        data = open_presets(
            experiment.data.presets,
            Path(data_home),
            sample_rate=experiment.audio.sample_rate,
            excluded=excluded,
        )
        self.training_sets = data.training
        self.weights = WeightTable(len(data.training))
        """Shares of the data sets from a sample on; see :meth:`first_open_sample`."""
        self.validation_sets = data.validation
        self.test_sets = data.test
        self.remarks: list[str] = []
        """What the user should know of the data, in words; said by rank 0."""
        if rank == 0 and data.training:
            self.remarks = octave_remarks(data.training, experiment.objective)
            self.remarks += class_remarks(data.training, tokenizer)
            self.remarks += [
                f"data: {name} adds nothing to this run: it has no song to train on and none to validate with"
                for name in data.idle
            ]

    @property
    def dataset_names(self) -> list[str]:
        """Names of the training data sets, in the order of ``Batch.dataset_index``."""
        return [item.name for item in self.training_sets]

    @property
    def set_names(self) -> list[str]:
        """Names of the validation sets, in the order of ``ValidationItem.set_index``."""
        return [item.name for item in self.validation_sets]

    @property
    def test_set_names(self) -> list[str]:
        """Names of the test sets, in the order of ``ValidationItem.set_index``."""
        return [item.name for item in self.test_sets]

    def describe(self) -> str:
        """What is trained on and what is scored, as one line."""
        trained = []
        for item in self.training_sets:
            rows = [item.store.index(split) for split in item.splits]
            minutes = sum(int(row["num_samples"].sum()) for row in rows) / item.store.sample_rate / 60
            time = f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
            trained.append(f"{item.name} ({counted(sum(map(len, rows)), 'song')}, {time})")
        limit = self.experiment.data.validation_files
        scored = [f"{item.name} ({counted(item.num_songs(limit), 'song')})" for item in self.validation_sets]
        return f"data: trains on {listing(trained, _SHOWN)}; validates on {listing(scored, _SHOWN)}"

    def contents(self) -> Contents:
        """What training and validation sets hold, for the checkpoints."""
        return contents_of(self.training_sets, self.validation_sets)

    def require_songs(self) -> None:
        """Raise a ``ValueError`` that says what to do when there is nothing to train on, nothing to validate
        with, or no note that the task transcribes; all that holds at once."""
        nothing = nothing_to_learn(self.training_sets, self.tokenizer) if self.training_sets else ""
        sentences = [nothing, self._no_songs()]
        if any(sentences):
            raise ValueError("\n".join(filter(None, sentences)))

    def _no_songs(self) -> str:
        """What there is no song for, and what helps; "" when there is nothing amiss."""
        purposes = {"to train on": self.training_sets, "to validate with": self.validation_sets}
        empty = [purpose for purpose, sets in purposes.items() if not sets]
        if not empty:
            return ""
        stores = [item.store for item in self.training_sets]
        stores += [item.store for item in (*self.validation_sets, *self.test_sets)]
        way_out = next(filter(None, map(store_way_out, stores)), "") or (
            "choose further data with -d; a data set of your own is prepared again with --overwrite and more "
            "songs or other shares (--validation-share, --test-share)"
        )
        presets = " ".join(self.experiment.data.presets)
        return f"-d {presets}: no song {' and none '.join(empty)}; {way_out}"

    def first_open_sample(self, consumed: int) -> int:
        """First sample that no loader process can have made when ``consumed`` samples have been trained on.

        From here on new weights may hold. It is the start of a batch of all ranks.
        """
        dataio = self.experiment.dataio
        ahead = dataio.num_workers * dataio.prefetch_factor + 1 if dataio.num_workers else 1
        step = self.world_size * self.experiment.bsz.local
        done = -(-(consumed - self.first_sample) // step)
        return self.first_sample + (done + ahead) * step

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of this rank without end, from ``first_sample`` on."""
        experiment = self.experiment
        if not self.training_sets:
            raise ValueError(self._no_songs())
        maker = SegmentMaker(
            self.training_sets,
            self.tokenizer,
            experiment.audio,
            experiment.augmentation,
            seed=experiment.seed,
            sub_batch=experiment.bsz.sub,
            weights=self.weights,
        )
        dataset = TrainingBatches(
            maker,
            self.tokenizer,
            experiment.audio,
            local_batch=experiment.bsz.local,
            rank=self.rank,
            world_size=self.world_size,
            first_sample=self.first_sample,
        )
        workers, ahead = experiment.dataio.num_workers, experiment.dataio.prefetch_factor
        if self._context != "fork":
            sounds = 2 if experiment.augmentation.pitch_shift_method == "device" else 1
            problem = shared_memory_problem(
                workers, ahead, experiment.bsz.local * experiment.audio.segment_samples * 4 * sounds
            )
            if problem:
                warnings.warn(problem, UserWarning, stacklevel=2)
        return self._loader(dataset, workers)

    def val_dataloader(self) -> DataLoader[ValidationItem]:
        """Songs of this rank, one per item, all validation sets one after another."""
        return self._evaluation_loader(self.validation_sets, self.experiment.data.validation_files)

    def test_dataloader(self) -> DataLoader[ValidationItem]:
        """Songs of this rank, one per item, all test sets one after another."""
        return self._evaluation_loader(self.test_sets, 0)

    def _evaluation_loader(self, sets: Sequence[ScoredSet], limit: int) -> DataLoader[ValidationItem]:
        dataset = EvaluationSongs(
            sets,
            self.tokenizer,
            self.experiment.audio,
            rank=self.rank,
            world_size=self.world_size,
            limit=limit,
        )
        return self._loader(dataset, min(self.experiment.dataio.num_workers, MAX_EVALUATION_WORKERS))

    def _loader(self, dataset: Any, workers: int) -> DataLoader[Any]:
        dataio = self.experiment.dataio
        training = isinstance(dataset, TrainingBatches)
        settings: dict[str, Any] = {}
        if workers:
            raise_file_limit(1024 + 8 * workers * dataio.prefetch_factor)
            settings = {
                "prefetch_factor": dataio.prefetch_factor,
                "persistent_workers": dataio.persistent_workers and training,
                "multiprocessing_context": multiprocessing.get_context(self._context),
            }
        kind = _ForkedLoader if training and workers and self._context == "fork" else _Loader
        return kind(
            dataset,
            batch_size=None,
            num_workers=workers,
            pin_memory=dataio.pin_memory and torch.cuda.is_available(),
            worker_init_fn=leave_signals_to_the_run,
            **settings,
        )
