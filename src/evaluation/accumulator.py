"""Means of scores over files, sets of files and ranks; the same number however the files were shared out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .counts import Ratio
from .matching import FloatArray

_UNIT = 2.0**-32
# Scores are rounded to this multiple, so that float64 sums of fewer than 2**21 of them are exact and do
# not depend on the order, hence not on the number of ranks. The rounding is 1e-10.


class MetricSums:
    """Sums and counts of scores per set; NaN scores are not counted.

    Means (macro) weigh files equally. Pooled scores (micro) are ratios of counts summed over files, so that
    long files weigh more and false positives count wherever they are. The layout (sets and their keys) is
    given at the start and is the same on every rank, so that :meth:`to_list` of all ranks can be added as
    they are.

    Args:
        keys: evaluation set name to the score keys of its files, for example
            ``{"quickstart": score_keys(vocab)}``. Sets keep their order; ``update`` takes name or number.
        pooled: keys to pool as well, in every set that has them.
    """

    def __init__(self, keys: Mapping[str, Sequence[str]], pooled: Sequence[str] = ()) -> None:
        self.set_names: list[str] = list(keys)
        self.keys: list[tuple[str, ...]] = [tuple(dict.fromkeys(names)) for names in keys.values()]
        self._slots: list[dict[str, int]] = []
        size = 0
        for names in self.keys:
            self._slots.append({name: size + i for i, name in enumerate(names)})
            size += len(names)
        self._sums = np.zeros(size)
        self._counts = np.zeros(size)
        self._pooled: list[tuple[str, ...]] = [
            tuple(key for key in dict.fromkeys(pooled) if key in names) for names in self.keys
        ]
        self._numerators = np.zeros(size)
        self._denominators = np.zeros(size)

    def update(
        self, set_name: str | int, scores: Mapping[str, float], ratios: Mapping[str, Ratio] | None = None
    ) -> None:
        """Add one file.

        Args:
            set_name: its evaluation set, or the number of it.
            scores: a key that is not in the layout is an error; a missing one is NaN.
            ratios: counts behind the pooled keys (:meth:`~.counts.FileCounts.ratios`); other keys in it are
                ignored.
        """
        index = self._index(set_name)
        slots = self._slots[index]
        for key, value in scores.items():
            if key not in slots:
                raise ValueError(f"score {key!r} is not in the layout of set {self.set_names[index]!r}")
            if math.isfinite(value):
                self._sums[slots[key]] += round(value / _UNIT) * _UNIT
                self._counts[slots[key]] += 1
        for key in self._pooled[index]:
            if ratios is None or key not in ratios:
                raise ValueError(
                    f"score {key!r} of set {self.set_names[index]!r} is pooled and needs its ratio"
                )
            self._numerators[slots[key]] += ratios[key][0]
            self._denominators[slots[key]] += ratios[key][1]

    def to_list(self) -> list[float]:
        """All sums, counts, numerators and denominators. Lists of several ranks add up element by element
        (in float64); a rank that saw nothing adds zeros."""
        flat: list[float] = np.concatenate(self._state()).tolist()
        return flat

    def load_list(self, values: Sequence[float]) -> None:
        """Take the state from what :meth:`to_list` gave (or the element-wise sum of several)."""
        state = self._state()
        size = sum(len(part) for part in state)
        if len(values) != size:
            raise ValueError(f"expected {size} numbers, got {len(values)}")
        array = np.asarray(values, dtype=np.float64)
        for part in state:
            part[:], array = array[: len(part)], array[len(part) :]

    def reset(self) -> None:
        """Forget all files; the layout stays."""
        for part in self._state():
            part[:] = 0.0

    def means(self, set_name: str | int) -> dict[str, float]:
        """Mean of each key over the files of one set, in layout order; NaN where no file counted."""
        slots = self._slots[self._index(set_name)]
        return {key: _divide(self._sums, self._counts, [slot]) for key, slot in slots.items()}

    def macro(self) -> dict[str, float]:
        """Mean of each key over the files of all sets pooled; NaN where no file counted."""
        every = self._slots_of(self.keys)
        return {key: _divide(self._sums, self._counts, slots) for key, slots in every.items()}

    def micro(self, set_name: str | int | None = None) -> dict[str, float]:
        """Each pooled key from the counts of one set, or of all sets; NaN where there was nothing at all."""
        if set_name is None:
            every = self._slots_of(self._pooled)
        else:
            index = self._index(set_name)
            every = {key: [self._slots[index][key]] for key in self._pooled[index]}
        return {key: _divide(self._numerators, self._denominators, slots) for key, slots in every.items()}

    def compute(self, prefix: str = "validation/", *, skip_empty: bool = True) -> dict[str, float]:
        """Everything under the names of the logs: ``{prefix}macro_{key}`` and ``{prefix}({set}){key}``, and
        for pooled keys ``{prefix}micro_{key}`` and ``{prefix}({set})micro_{key}``.

        Keys that no file counted for are left out (``skip_empty``) or NaN.
        """
        values = {f"{prefix}macro_{key}": value for key, value in self.macro().items()}
        values |= {f"{prefix}micro_{key}": value for key, value in self.micro().items()}
        for index, name in enumerate(self.set_names):
            values |= {f"{prefix}({name}){key}": value for key, value in self.means(index).items()}
            values |= {f"{prefix}({name})micro_{key}": value for key, value in self.micro(index).items()}
        return {key: value for key, value in values.items() if not (skip_empty and math.isnan(value))}

    def _state(self) -> tuple[FloatArray, ...]:
        return self._sums, self._counts, self._numerators, self._denominators

    def _slots_of(self, keys: Sequence[Sequence[str]]) -> dict[str, list[int]]:
        """Key to its slots in all sets."""
        every: dict[str, list[int]] = {}
        for slots, names in zip(self._slots, keys, strict=True):
            for key in names:
                every.setdefault(key, []).append(slots[key])
        return every

    def _index(self, set_name: str | int) -> int:
        if isinstance(set_name, int):
            return set_name
        if set_name not in self.set_names:
            raise ValueError(f"no evaluation set {set_name!r}; sets: {', '.join(self.set_names)}")
        return self.set_names.index(set_name)


def _divide(above: FloatArray, below: FloatArray, slots: Sequence[int]) -> float:
    total = float(below[list(slots)].sum())
    return float(above[list(slots)].sum()) / total if total else float("nan")
