"""Do all ranks mean the same run? Machines have variables, files and versions of their own; ranks that go
different ways meet in the wrong places, or train different weights without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.trainer.states import TrainerFn

from .. import __version__
from ..config import Experiment
from ..config.leaves import leaves
from ..data.module import TranscriptionData
from ..data.store import SongStore

_OWN = (
    "dataio.num_workers",
    "dataio.prefetch_factor",
    "dataio.persistent_workers",
    "dataio.pin_memory",
    "trainer.num_threads",
    "wandb.",
)
"""Leaves in which machines may differ: only rank 0 reads ``wandb``."""
_MOST = 8
"""Differences that are named."""


def describe_run(experiment: Experiment, data: TranscriptionData, more: Mapping[str, Any]) -> dict[str, str]:
    """All that must be the same on every rank, as text.

    Args:
        experiment: the resolved run.
        data: its songs; stores are compared by the hashes that their writer noted.
        more: settings that are no part of the experiment.
    """
    found = {name: repr(value) for name, value in leaves(experiment) if not name.startswith(_OWN)}
    found |= {name: repr(value) for name, value in more.items()}
    found |= {"version of amt": __version__, "version of torch": torch.__version__}
    for training in data.training_sets:
        for split in training.splits:
            found[f"songs of {training.name}, {split}"] = _hash(training.store, split)
    for scored in data.validation_sets:
        number = scored.num_songs(experiment.data.validation_files)
        found[f"validation songs of {scored.name}"] = f"{number}, {_hash(scored.store, scored.split)}"
    return found


def _hash(store: SongStore, split: str) -> str:
    return f"hash {store.recorded_hash(split)[:12]}"


class OtherRun(ValueError):
    """Ranks were started for different runs; every rank raises it."""

    amt_said = True


class Agreement(Callback):
    """Compares :func:`describe_run` of all ranks before the first step.

    Args:
        own: of this rank.
        world_size: number of ranks; 1 has nobody to ask.
    """

    def __init__(self, own: Mapping[str, str], world_size: int) -> None:
        self._own = dict(own)
        self._world_size = world_size

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """All ranks meet here.

        Raises:
            OtherRun: with what differs on which rank.
        """
        if stage != TrainerFn.FITTING.value or self._world_size == 1:
            return
        everyone: list[dict[str, str]] = [{} for _ in range(self._world_size)]
        dist.all_gather_object(everyone, self._own)
        for rank, other in enumerate(everyone):
            if different := differences(everyone[0], other, rank):
                raise OtherRun(
                    f"rank {rank} was started for another run than rank 0: {'; '.join(different)}. Give all "
                    "processes the same flags, AMT_ variables, files and versions"
                )


def differences(first: Mapping[str, str], other: Mapping[str, str], rank: int) -> list[str]:
    """What rank 0 and ``rank`` do not have in common, in words; the first few."""
    names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
    said = [
        f"{name} is {first.get(name, 'missing')} on rank 0 and {other.get(name, 'missing')} on rank {rank}"
        for name in names[:_MOST]
    ]
    return said + ([f"and {len(names) - _MOST} more"] if len(names) > _MOST else [])
