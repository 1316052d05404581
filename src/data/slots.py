"""Shared memory that loader processes put the sound of batches into, again and again.

With a fresh piece for each batch, mapping and clearing its pages and handing its file over a socket cost
seven times as much as sending a batch in memory that both processes have already.
"""

from __future__ import annotations

import itertools
import mmap
import os
import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_KEYS = itertools.count()
_OPEN: dict[int, AudioSlots] = {}
"""Those of this process and of the process it was forked from."""


@dataclass(frozen=True)
class SlotPlace:
    """Where a tensor lies; travels in its stead from a loader process to the one that trains."""

    key: int
    slot: int
    shape: tuple[int, ...]


class AudioSlots:
    """Equal slots, some for each loader process of one iterator.

    Made before the processes are forked. A loader process takes a slot of its own, fills it and sends its
    place; the slot is free again when nothing in the training process refers to that tensor any more.

    Args:
        num_workers: loader processes.
        per_worker: slots of each.
        size: float32 values of a slot.
    """

    def __init__(self, num_workers: int, per_worker: int, size: int) -> None:
        self._per_worker = per_worker
        self._size = size
        self._slot_bytes = -(-4 * size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._used = np.frombuffer(mmap.mmap(-1, num_workers * per_worker), dtype=np.uint8)
        # Pages that no batch has touched take no memory.
        self._memory = np.frombuffer(mmap.mmap(-1, len(self._used) * self._slot_bytes), dtype=np.uint8)
        self._key = next(_KEYS)
        self._worker: int | None = None
        _OPEN[self._key] = self

    def close(self) -> None:
        """No batch arrives any more; those that are there stay good."""
        _OPEN.pop(self._key, None)

    def serve(self, worker: int) -> None:
        """This process is loader process number ``worker``."""
        self._worker = worker

    def take(self, shape: tuple[int, ...]) -> Tensor | None:
        """In a loader process: a tensor float32 in a free slot of its own, not cleared; None without one."""
        assert self._worker is not None
        first = self._worker * self._per_worker
        free = np.flatnonzero(self._used[first : first + self._per_worker] == 0)
        if not len(free):
            return None
        slot = first + int(free[0])
        self._used[slot] = 1
        return torch.from_numpy(self._view(slot, shape))

    def receive(self, place: SlotPlace) -> Tensor:
        """The tensor at a place; its slot is free again with the last reference to its memory."""
        view = self._view(place.slot, place.shape)
        weakref.finalize(view, _release, self._used, place.slot, os.getpid()).atexit = False
        return torch.from_numpy(view)

    def place_of(self, tensor: Tensor) -> SlotPlace | None:
        """In a loader process: where a tensor that was taken lies. None for any other, and elsewhere."""
        if self._worker is None:
            return None
        distance = tensor.data_ptr() - self._memory.ctypes.data
        if not 0 <= distance < self._memory.nbytes:
            return None
        return SlotPlace(self._key, distance // self._slot_bytes, tuple(tensor.shape))

    def _view(self, slot: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        size = int(np.prod(shape))
        assert size <= self._size
        start = slot * self._slot_bytes
        return np.frombuffer(self._memory, np.float32, size, start).reshape(shape)


def sent(tensor: Tensor) -> Tensor | SlotPlace:
    """What a loader process sends for a tensor: its place where it lies in a slot."""
    for slots in _OPEN.values():
        place = slots.place_of(tensor)
        if place is not None:
            return place
    return tensor


def received(place: SlotPlace) -> Tensor:
    """The tensor that was sent as its place."""
    return _OPEN[place.key].receive(place)


def _release(used: npt.NDArray[np.uint8], slot: int, owner: int) -> None:
    """Free a slot. A process forked later has copies of all references; they do not count."""
    if os.getpid() == owner:
        used[slot] = 0
