"""Which segment is sample number g: every draw is a pure function of the run's seed and g.

Rank and worker only decide who computes a sample. So a run can resume at any sample, with any number of
workers, and two workers never draw the same stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


def keyed_rng(seed: int, stream: str, number: int) -> np.random.Generator:
    """The generator of one sample's draws of one kind.

    Args:
        seed: of the run.
        stream: name of the kind of draw; streams are independent, so a new one changes no other.
        number: global sample number, at least 0.
    """
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, zlib.crc32(stream.encode())], dtype=np.uint64)
    counter = np.array([0, 0, number, 0], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


class KeyedGenerators:
    """The generators of :func:`keyed_rng`, one object per stream, set anew for each number.

    Ten times as fast as making one. A generator is good until the next of its stream is asked for.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, tuple[np.random.Generator, np.random.Philox, Any]] = {}

    def get(self, stream: str, number: int) -> np.random.Generator:
        """What ``keyed_rng(seed, stream, number)`` gives."""
        found = self._streams.get(stream)
        if found is None:
            rng = keyed_rng(self._seed, stream, number)
            philox = rng.bit_generator
            assert isinstance(philox, np.random.Philox)
            self._streams[stream] = (rng, philox, philox.state)
            return rng
        rng, philox, state = found
        state["state"]["counter"][2] = number
        philox.state = state
        return rng

    def __getstate__(self) -> dict[str, Any]:
        return {"_seed": self._seed, "_streams": {}}


class Position(NamedTuple):
    """Where a segment comes from."""

    dataset: int
    """Number of the data set."""
    song: int
    """Number of the song in the data set."""
    place: float
    """Where in the song: 0 is the first possible start, 1 (excluded) the last."""


class SongDraw:
    """Draws songs: data sets by weight, then songs of a data set by their length.

    Args:
        lengths: samples of each song, for each data set.
        weights: share of each data set in the draws, up to a common factor. The size of a data set does not
            matter.

    Raises:
        ValueError: when no draw is possible.
    """

    def __init__(self, lengths: Sequence[npt.NDArray[np.int64]], weights: Sequence[float]) -> None:
        shares = np.asarray(weights, dtype=np.float64)
        if len(shares) != len(lengths) or not len(shares):
            raise ValueError(f"{len(lengths)} data sets and {len(shares)} weights")
        if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
            raise ValueError(
                f"weights of data sets must be 0 or more and one of them positive, not {list(weights)}"
            )
        self._shares = np.cumsum(shares) / shares.sum()
        self._songs = [np.cumsum(np.maximum(item, 1).astype(np.float64)) for item in lengths]
        for number, (item, share) in enumerate(zip(self._songs, shares, strict=True)):
            if share > 0 and not len(item):
                raise ValueError(f"data set number {number} has no songs")

    def draw(self, rng: np.random.Generator, shares: npt.NDArray[np.float64] | None = None) -> Position:
        """One draw; always takes three numbers from ``rng``.

        Args:
            rng: of the draw.
            shares: of the data sets (sum 1), instead of the weights of the constructor.
        """
        first, second, third = rng.random(3)
        ends = self._shares
        if shares is not None:
            ends = np.cumsum(shares)
            ends /= ends[-1]
        return self._place(int(np.searchsorted(ends, first, side="right")), second, third)

    def draw_from(self, dataset: int, rng: np.random.Generator) -> Position:
        """One draw within a data set; always takes two numbers from ``rng``."""
        second, third = rng.random(2)
        return self._place(dataset, second, third)

    def _place(self, dataset: int, second: float, third: float) -> Position:
        ends = self._songs[dataset]
        song = int(np.searchsorted(ends, second * ends[-1], side="right"))
        return Position(dataset, min(song, len(ends) - 1), float(third))


def start_of(place: float, num_samples: int, span: int) -> int:
    """First sample of a segment of ``span`` samples at ``place`` in a song; 0 in songs that are shorter."""
    return int(place * (max(0, num_samples - span) + 1))


def batch_numbers(
    batch: int, first_sample: int, rank: int, world_size: int, local: int
) -> npt.NDArray[np.int64]:
    """Global sample numbers of the rank's micro-batch number ``batch`` since ``first_sample``."""
    begin = first_sample + (batch * world_size + rank) * local
    return np.arange(begin, begin + local, dtype=np.int64)


def batches_of_worker(worker: int, num_workers: int) -> Iterator[int]:
    """Numbers of the micro-batches one worker makes, without end; the loader takes workers in turn."""
    batch = worker
    while True:
        yield batch
        batch += num_workers
