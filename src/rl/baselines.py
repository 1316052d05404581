"""What is subtracted from a reward before it weighs a sample's log-probability.

A baseline that does not depend on the sample itself leaves the expected gradient as it is and only lowers its
variance (Williams 1992). So every mean here leaves out the sample it is for; with it, the gradient would be
too small by the factor (n - 1) / n.

Axes: K samples of a row, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..config.rl import RL_BASELINES


def none(rewards: Tensor) -> Tensor:
    """Nothing: (K, R) zeros."""
    return torch.zeros_like(rewards)


def group(rewards: Tensor) -> Tensor:
    """Mean reward of the other samples of the same row (Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a
    Baseline for Free!"); needs K of 2 or more."""
    samples = len(rewards)
    assert samples > 1
    return (rewards.sum(0) - rewards) / (samples - 1)


def others(rewards: Tensor, total: Tensor | float, count: int) -> Tensor:
    """Mean reward of all other samples of the step, when ``count`` samples of all ranks add up to ``total``;
    0 for a single one."""
    return (total - rewards) / (count - 1) if count > 1 else torch.zeros_like(rewards)


class Baseline:
    """One of :data:`~amt.config.rl.RL_BASELINES`, and the state of ``ema``.

    ``batch`` is the mean of all other samples of all ranks; ``group`` that of the other samples of the same
    row; ``greedy`` the reward of the row's likeliest tokens (Rennie et al. 2017, "Self-critical Sequence
    Training"); ``ema`` a moving average of the mean rewards of finished steps, and ``batch`` until there is
    one; ``none`` is 0.
    """

    def __init__(self, name: str, ema_decay: float = 0.9, world_size: int = 1) -> None:
        assert name in RL_BASELINES
        self.name = name
        self.ema: float | None = None
        """Moving average of the reward; None before the first finished step."""
        self._decay = ema_decay
        self._world_size = world_size
        self._pending: list[tuple[float, int]] = []

    def __call__(self, rewards: Tensor, greedy: Tensor | None = None) -> tuple[Tensor, float]:
        """The baseline of each sample, and the mean reward of all ranks. All ranks meet here.

        Args:
            rewards: (K, R) float64; this rank may have no row.
            greedy: (R,) rewards of the greedy decoding, for that baseline.

        Returns:
            (K, R), and the mean over the samples of all ranks (0 without any).
        """
        sums = torch.tensor([float(rewards.sum()), float(rewards.numel())], dtype=torch.float64)
        if self._world_size > 1:
            sums = sums.to(rewards.device)
            dist.all_reduce(sums)
        total, count = float(sums[0]), round(float(sums[1]))
        self._pending.append((total, count))
        mean = total / count if count else 0.0
        if self.name == "none":
            return none(rewards), mean
        if self.name == "group":
            return group(rewards), mean
        if self.name == "greedy":
            assert greedy is not None
            return greedy.expand_as(rewards), mean
        if self.name == "ema" and self.ema is not None:
            return torch.full_like(rewards, self.ema), mean
        return others(rewards, total, count), mean

    def settle(self, dropped: bool) -> None:
        """The step is over: its rewards move the average, unless it was dropped."""
        total = sum(item for item, _ in self._pending)
        count = sum(item for _, item in self._pending)
        self._pending = []
        if dropped or not count:
            return
        mean = total / count
        self.ema = mean if self.ema is None else self._decay * self.ema + (1 - self._decay) * mean

    def state(self) -> Sequence[float]:
        """Plain state: the average, or nothing."""
        return [] if self.ema is None else [self.ema]

    def load(self, state: Sequence[float]) -> None:
        """Go on from :meth:`state`."""
        self.ema = float(state[0]) if state else None
        self._pending = []
