"""Windows of several songs in one stream of batches, and their tokens back to their songs.

Axes: W windows, S samples, C decoding channels, N tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .pitch_check import PitchEvidence
from .windows import Samples, Windows

Ids = npt.NDArray[np.int32]


@dataclass
class QueuedSong:
    """A song whose windows are being decoded."""

    number: int
    """Its place among the songs, from 0."""
    windows: Windows
    evidence: PitchEvidence | None
    num_channels: int
    opened: float = field(default_factory=time.perf_counter)
    num_done: int = 0
    """Windows of which all channels are decoded."""
    _ids: dict[int, list[Ids]] = field(default_factory=dict)

    def put(self, window: int, channel: int, ids: Ids) -> None:
        """Keep the tokens (n,) of one channel of a window."""
        channels = self._ids.setdefault(window, [np.zeros(0, dtype=np.int32)] * self.num_channels)
        channels[channel] = ids

    def tokens(self, pad_id: int) -> npt.NDArray[np.int64]:
        """(W, C, N) of all windows."""
        longest = max(len(ids) for channels in self._ids.values() for ids in channels)
        shape = self.windows.num_windows, self.num_channels, longest
        tokens = np.full(shape, pad_id, dtype=np.int64)
        for window, channels in self._ids.items():
            for channel, ids in enumerate(channels):
                tokens[window, channel, : len(ids)] = ids
        return tokens


class QueuedWindow(NamedTuple):
    """One window of a batch."""

    song: QueuedSong
    number: int
    samples: Samples


class SongQueue:
    """Opens songs one after the other and cuts them into batches of windows that may be of several songs.

    Args:
        sources: opens the next song, one function each; when one raises ``ValueError`` or ``OSError``, that
            is kept for :meth:`take_failures` and the next song is opened.
        batch_size: windows of a batch.
        num_channels: token sequences per window.

    Attributes:
        num_windows: of the songs opened so far.
        num_done: windows decoded so far.
    """

    def __init__(
        self, sources: Iterable[Callable[[int], QueuedSong]], batch_size: int, num_channels: int
    ) -> None:
        self._sources = sources
        self._batch_size = batch_size
        self._num_channels = num_channels
        self._given: dict[int, tuple[QueuedSong, int, int]] = {}
        """Window number in the stream to its song, number in the song, and channels still to come."""
        self._failures: list[tuple[int, Exception]] = []
        self._failed: set[int] = set()
        self.num_windows = 0
        self.num_done = 0

    def batches(self) -> Iterator[list[QueuedWindow]]:
        """Batches of ``batch_size`` windows, the last one smaller."""
        batch: list[QueuedWindow] = []
        for place, window in enumerate(self._all_windows()):
            self._given[place] = (window.song, window.number, self._num_channels)
            batch.append(window)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _all_windows(self) -> Iterator[QueuedWindow]:
        for number, open_song in enumerate(self._sources):
            try:
                song = open_song(number)
                self.num_windows += song.windows.num_windows
                window = 0
                for piece in song.windows.pieces:
                    for samples in piece:
                        yield QueuedWindow(song, window, samples)
                        window += 1
            except (ValueError, OSError) as error:
                self._failures.append((number, error))
                self._failed.add(number)

    def take_failures(self) -> list[tuple[int, Exception]]:
        """(song number, error) of the songs found unreadable since the last call."""
        taken, self._failures = self._failures, []
        return taken

    def put(self, row: int, ids: Ids) -> QueuedSong | None:
        """Tokens of row ``row`` (window in the stream times C plus channel); the song if it is complete."""
        place, channel = divmod(row, self._num_channels)
        song, window, left = self._given[place]
        song.put(window, channel, ids)
        if left > 1:
            self._given[place] = (song, window, left - 1)
            return None
        del self._given[place]
        song.num_done += 1
        self.num_done += 1
        complete = song.num_done == song.windows.num_windows and song.number not in self._failed
        return song if complete else None
