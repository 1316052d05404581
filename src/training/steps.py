"""What is known of finished steps, and the random numbers of one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class StepReport:
    """One step in plain numbers, for the progress line and the logs."""

    step: int
    loss: float
    """0 for a dropped step."""
    rate: float
    """Learning rate the step was made with."""
    grad_norm: float
    dropped: bool


class EpochMean:
    """Mean training loss of an epoch over all ranks, dropped steps left out."""

    def __init__(self) -> None:
        self._total = 0.0
        self._count = 0

    def add(self, report: StepReport) -> None:
        """Count a step of this rank."""
        if not report.dropped:
            self._total += report.loss
            self._count += 1

    def take(self, world_size: int, device: torch.device) -> float | None:
        """The mean so far, after which a new epoch begins; None without a step. All ranks meet here."""
        sums = torch.tensor(self.to_list(), dtype=torch.float64, device=device)
        self.load_list((0.0, 0))
        if world_size > 1:
            torch.distributed.all_reduce(sums)
        total, count = sums.tolist()
        return total / count if count else None

    def to_list(self) -> list[float]:
        """Plain state."""
        return [self._total, self._count]

    def load_list(self, state: Sequence[float]) -> None:
        """Go on from :meth:`to_list`."""
        self._total, self._count = float(state[0]), int(state[1])


def step_seed(seed: int, rank: int, step: int, part: int) -> int:
    """A seed from the run's seed, the rank, the step and the batch of the step, so that a resumed run draws
    the same numbers."""
    key = (seed & 0xFFFFFFFF, rank, step, part)
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]) >> 1


def seed_step(seed: int, rank: int, step: int, part: int) -> None:
    """Seed the global generators (dropout) with :func:`step_seed`."""
    state = step_seed(seed, rank, step, part)
    torch.manual_seed(state)
    random.seed(state)
    np.random.seed(state & 0xFFFFFFFF)
