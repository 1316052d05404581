"""Windows of several songs in one stream of batches, and their tokens back to their songs.

Axes: S samples, C decoding channels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..notes.note import Note
from .stitching import Stitcher
from .windows import Samples, Windows


@dataclass
class QueuedSong:
    """A song whose windows are being decoded."""

    number: int
    """Its place among the songs, from 0."""
    windows: Windows
    stitcher: Stitcher
    name: str = ""
    """Of its file."""
    opened: float = field(default_factory=time.perf_counter)
    notes: list[Note] = field(default_factory=list)
    """Those that are final, in the order in which they became so."""
    _waiting: dict[int, list[list[int]]] = field(default_factory=dict)
    """Decoded windows whose turn has not come: the number of each, to its tokens by channel."""
    _next: int = 0

    def put(self, window: int, rows: list[list[int]]) -> list[Note]:
        """Take the tokens of one window by channel; the notes that became final, in order."""
        self._waiting[window] = rows
        new: list[Note] = []
        while (ready := self._waiting.pop(self._next, None)) is not None:
            new += self.stitcher.add(ready)
            self._next += 1
        self.notes += new
        return new


@dataclass
class _Place:
    """A window in the stream."""

    song: QueuedSong
    number: int
    """In its song."""
    rows: list[list[int]]
    left: int
    """Channels still to come."""


class Decoded(NamedTuple):
    """What a window that is decoded did for its song."""

    song: QueuedSong
    new_notes: list[Note]
    is_complete: bool


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
        self._given: dict[int, _Place] = {}
        """By the number of the window in the stream."""
        self._failures: list[tuple[int, Exception]] = []
        self._failed: set[int] = set()
        self.num_windows = 0
        self.num_done = 0

    def batches(self) -> Iterator[list[QueuedWindow]]:
        """Batches of ``batch_size`` windows, the last one smaller."""
        batch: list[QueuedWindow] = []
        for place, window in enumerate(self._all_windows()):
            channels = self._num_channels
            self._given[place] = _Place(window.song, window.number, [[] for _ in range(channels)], channels)
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

    def put(self, row: int, ids: list[int]) -> Decoded | None:
        """Tokens of row ``row`` (window in the stream times C plus channel); None: its window wants more."""
        number, channel = divmod(row, self._num_channels)
        place = self._given[number]
        place.rows[channel] = ids
        place.left -= 1
        if place.left:
            return None
        del self._given[number]
        self.num_done += 1
        song = place.song
        new = song.put(place.number, place.rows)
        return Decoded(song, new, song.stitcher.is_complete and song.number not in self._failed)
