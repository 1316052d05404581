"""Means of scores over files, sets of files and ranks; the same number however the files were shared out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

_UNIT = 2.0**-32
# Scores are rounded to this multiple, so that float64 sums of fewer than 2**21 of them are exact and do
# not depend on the order, hence not on the number of ranks. The rounding is 1e-10.


class MetricSums:
    """Sums and counts of scores per set; NaN scores are not counted.

    The layout (sets and their keys) is given at the start and is the same on every rank, so that
    :meth:`to_list` of all ranks can be added as they are.

    Args:
        keys: evaluation set name to the score keys of its files, for example
            ``{"quickstart": score_keys(vocab)}``. Sets keep their order; ``update`` takes name or number.
    """

    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        self.set_names: list[str] = list(keys)
        self.keys: list[tuple[str, ...]] = [tuple(dict.fromkeys(names)) for names in keys.values()]
        self._slots: list[dict[str, int]] = []
        size = 0
        for names in self.keys:
            self._slots.append({name: size + i for i, name in enumerate(names)})
            size += len(names)
        self._sums = np.zeros(size)
        self._counts = np.zeros(size)
        self._files = np.zeros(len(self.set_names))

    def update(self, set_name: str | int, scores: Mapping[str, float]) -> None:
        """Add the scores of one file. A key that is not in the layout is an error; a missing one is NaN."""
        index = self._index(set_name)
        slots = self._slots[index]
        for key, value in scores.items():
            if key not in slots:
                raise ValueError(f"score {key!r} is not in the layout of set {self.set_names[index]!r}")
            if math.isfinite(value):
                self._sums[slots[key]] += round(value / _UNIT) * _UNIT
                self._counts[slots[key]] += 1
        self._files[index] += 1

    def merge(self, other: MetricSums) -> None:
        """Add what another accumulator of the same layout has seen."""
        if other.set_names != self.set_names or other.keys != self.keys:
            raise ValueError("only sums of the same sets and keys can be merged")
        self._sums += other._sums
        self._counts += other._counts
        self._files += other._files

    def to_list(self) -> list[float]:
        """All sums, then all counts, then the files per set. Lists of several ranks add up element by
        element (in float64); a rank that saw nothing adds zeros."""
        return [*self._sums.tolist(), *self._counts.tolist(), *self._files.tolist()]

    def load_list(self, values: Sequence[float]) -> None:
        """Take the state from what :meth:`to_list` gave (or the element-wise sum of several)."""
        size = len(self._sums)
        if len(values) != 2 * size + len(self.set_names):
            raise ValueError(f"expected {2 * size + len(self.set_names)} numbers, got {len(values)}")
        array = np.asarray(values, dtype=np.float64)
        self._sums, self._counts, self._files = (
            array[:size].copy(),
            array[size : 2 * size].copy(),
            array[2 * size :].copy(),
        )

    def reset(self) -> None:
        """Forget all files; the layout stays."""
        self._sums[:] = 0.0
        self._counts[:] = 0.0
        self._files[:] = 0.0

    def num_files(self, set_name: str | int) -> int:
        """Files added to a set."""
        return int(self._files[self._index(set_name)])

    def means(self, set_name: str | int) -> dict[str, float]:
        """Mean of each key over the files of one set, in layout order; NaN where no file counted."""
        slots = self._slots[self._index(set_name)]
        return {key: self._mean([slot]) for key, slot in slots.items()}

    def macro(self) -> dict[str, float]:
        """Mean of each key over the files of all sets pooled; NaN where no file counted."""
        pooled: dict[str, list[int]] = {}
        for slots in self._slots:
            for key, slot in slots.items():
                pooled.setdefault(key, []).append(slot)
        return {key: self._mean(slots) for key, slots in pooled.items()}

    def compute(self, prefix: str = "validation/", *, skip_empty: bool = True) -> dict[str, float]:
        """Everything under the names of the logs: ``{prefix}macro_{key}`` and ``{prefix}({set}){key}``.

        Keys that no file counted for are left out (``skip_empty``) or NaN.
        """
        values = {f"{prefix}macro_{key}": value for key, value in self.macro().items()}
        for index, name in enumerate(self.set_names):
            values |= {f"{prefix}({name}){key}": value for key, value in self.means(index).items()}
        return {key: value for key, value in values.items() if not (skip_empty and math.isnan(value))}

    def _index(self, set_name: str | int) -> int:
        if isinstance(set_name, int):
            return set_name
        if set_name not in self.set_names:
            raise ValueError(f"no evaluation set {set_name!r}; sets: {', '.join(self.set_names)}")
        return self.set_names.index(set_name)

    def _mean(self, slots: Sequence[int]) -> float:
        count = float(self._counts[list(slots)].sum())
        return float(self._sums[list(slots)].sum()) / count if count else float("nan")
