"""Shares of the data sets that change during a run, known to every loader process.

An entry is a list of weights and the sample number from which they hold, so that what a sample is stays a
function of its number: a resumed run that loads the table draws the same samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

CAPACITY = 256
"""Entries kept; older ones go. One is added per validation, and no loader is nearly as many batches behind
the last one; a run that is resumed further back loads the table of its own checkpoint."""


class WeightTable:
    """Weights of the data sets of a run by sample number; shared with loader processes, also running ones.

    One process adds, any read. Safe to pickle to a loader process.
    """

    def __init__(self, num_sets: int) -> None:
        self.num_sets = num_sets
        self._rows = torch.zeros(CAPACITY, num_sets + 1, dtype=torch.float64)
        self._count = torch.zeros(1, dtype=torch.int64)
        for table in (self._rows, self._count):
            table.share_memory_()  # type: ignore[no-untyped-call]

    def add(self, first_sample: int, weights: Sequence[float]) -> None:
        """From sample ``first_sample`` on, data sets are drawn by ``weights``.

        Args:
            first_sample: number of a sample that no loader has made yet; above those of earlier entries.
            weights: one per data set, 0 or more, one of them positive; up to a common factor.

        Raises:
            ValueError: for weights that are none, or a sample number that does not rise.
        """
        shares = np.asarray(weights, dtype=np.float64)
        if shares.shape != (self.num_sets,) or not np.isfinite(shares).all() or (shares < 0).any():
            raise ValueError(f"weights must be {self.num_sets} numbers of 0 or more, not {list(weights)}")
        if not shares.sum() > 0:
            raise ValueError("one of the weights of the data sets must be positive")
        self._append(first_sample, shares / shares.sum())

    def _append(self, first_sample: int, shares: npt.NDArray[np.float64]) -> None:
        count = int(self._count)
        if count and first_sample <= float(self._rows[(count - 1) % CAPACITY, 0]):
            raise ValueError(f"sample {first_sample} does not lie after the last change of the weights")
        row = self._rows[count % CAPACITY]
        row[1:] = torch.from_numpy(shares)
        row[0] = first_sample
        self._count += 1

    def at(self, number: int) -> npt.NDArray[np.float64] | None:
        """Shares (sum 1) that hold for sample ``number``; None before the first change."""
        count = int(self._count)
        for entry in range(count - 1, max(count - CAPACITY, 0) - 1, -1):
            row = self._rows[entry % CAPACITY].numpy()
            if row[0] <= number:
                shares: npt.NDArray[np.float64] = row[1:]
                return shares
        assert count < CAPACITY, f"the weights of sample {number} are no longer known"
        return None

    def state(self) -> list[list[float]]:
        """All entries as plain numbers: first sample, then the shares."""
        count = int(self._count)
        return [self._rows[i % CAPACITY].tolist() for i in range(max(count - CAPACITY, 0), count)]

    def load(self, state: Sequence[Sequence[float]]) -> None:
        """Take the entries of :meth:`state` instead of the present ones."""
        self._count.zero_()
        for first, *shares in state:
            self._append(int(first), np.asarray(shares, dtype=np.float64))  # as they are, to the last bit
