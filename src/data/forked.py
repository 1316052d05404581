"""Training batches from forked processes, for little more than the batches themselves cost.

torch's loader takes two threads, three queues and their locks to hand over a batch, however small it is. Here
each process has two pipes of its own: one byte that asks for a batch, nine bytes that say where it lies. The
sound lies in :class:`AudioSlots`, the rest in shared memory that is used in turn. Which batch comes from
which process is known beforehand, so nothing is sorted, and numbers of samples are never sent.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import select
import signal
import struct
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch._utils import ExceptionWrapper

from .batch import Batch
from .dataset import TrainingBatches
from .slots import AudioSlots
from .workers import leave_signals_to_the_run

LETTER_BYTES = 4 << 20
"""Shared memory for one batch without its sound. Pages that no batch has touched take no memory; what does
not fit goes through the pipe."""
HELD = 3
"""Batches of one process that training may hold: the last one, one ahead, and one on its way."""
_CHECK_MS = 5000
"""How often one that waits looks whether the other side is still there."""
_HEADER = struct.Struct("<cQ")
_MORE, _RESTART = b"+", b"r"
_LETTER, _PIPED, _FAILED, _RESTARTED = b"l", b"p", b"f", b"r"


class _Letters:
    """Shared memory for what is sent, ``ahead`` places for each process, used in turn."""

    def __init__(self, num_workers: int, ahead: int) -> None:
        self._ahead = ahead
        self._memory = memoryview(mmap.mmap(-1, num_workers * ahead * LETTER_BYTES))

    def place(self, worker: int, number: int, size: int) -> memoryview:
        """Memory of the message ``number`` of a process."""
        start = (worker * self._ahead + number % self._ahead) * LETTER_BYTES
        return self._memory[start : start + size]


@dataclass
class _Worker:
    """A loader process, as seen by the one that trains."""

    number: int
    process: BaseProcess
    orders: int
    """Write end of the pipe of orders to it."""
    messages: int
    """Read end of the pipe of what it says."""
    received: int = 0
    """Messages so far."""

    def order(self, orders: bytes) -> None:
        """Ask for a batch with each byte, or for a new beginning."""
        # Where it is gone, what it had sent is still good, and whoever waits for more is told.
        with suppress(BrokenPipeError):
            os.write(self.orders, orders)

    def receive(self, letters: _Letters) -> Any:
        """What it sends next. Raises its error, or a ``RuntimeError`` when it is gone."""
        kind, size = _HEADER.unpack(self._read(_HEADER.size))
        if kind == _LETTER:
            found = pickle.loads(letters.place(self.number, self.received, size))
        else:
            found = pickle.loads(self._read(size))
        self.received += 1
        if kind == _FAILED:
            found.reraise()
        return found

    def _read(self, size: int) -> bytes:
        poller = select.poll()
        poller.register(self.messages, select.POLLIN)
        content = b""
        while len(content) < size:
            while not poller.poll(_CHECK_MS):
                if not self.process.is_alive():
                    raise RuntimeError(self._how_it_ended())
            part = os.read(self.messages, size - len(content))
            if not part:
                raise RuntimeError(self._how_it_ended())
            content += part
        return content

    def _how_it_ended(self) -> str:
        self.process.join(_CHECK_MS / 1000)
        code = self.process.exitcode
        how = f"status {code}"
        if code is not None and code < 0:
            how = f"signal {-code} ({signal.strsignal(-code)})"
        return (
            f"loader process {self.number} (pid {self.process.pid}) ended unexpectedly with {how}; "
            "when memory ran out, lower --num-workers or AMT_PREFETCH_FACTOR"
        )


class ForkedBatches:
    """The batches of a dataset in order, made by processes that are forked here.

    A process starts on a batch only when fewer than ``ahead`` of its batches are wanted or waiting.

    Args:
        dataset: what makes them.
        num_workers: processes.
        ahead: batches each of them may be ahead.
        pin: give batches in page-locked memory, copied one ahead by a thread.

    Raises:
        Exception: an error in a process is raised where its batch is asked for.
        RuntimeError: a process was killed.
    """

    def __init__(self, dataset: TrainingBatches, num_workers: int, ahead: int, *, pin: bool = False) -> None:
        # Every iterator of torch's loaders takes a number for its seeds; the run's own draws follow it.
        torch.empty((), dtype=torch.int64).random_()
        self._ahead = ahead
        self._slots = dataset.sound_slots(num_workers, ahead + HELD)
        self._letters = _Letters(num_workers, ahead)
        self._workers: list[_Worker] = []
        for number in range(num_workers):
            self._workers.append(self._fork(dataset, number, num_workers))
        self._end = weakref.finalize(self, _end_workers, self._workers, self._slots, os.getpid())
        self._end.atexit = False  # too late: Python waits for its processes before
        self._threads = _pinning_thread() if pin else None
        self._pinned: Future[Batch] | None = None
        self._start()

    @property
    def processes(self) -> list[BaseProcess]:
        """The loader processes."""
        return [worker.process for worker in self._workers]

    def __iter__(self) -> ForkedBatches:
        return self

    def __next__(self) -> Batch:
        if self._threads is None:
            batch = self._receive()
        else:
            pinned = self._pinned or self._threads.submit(self._receive_pinned)
            batch = pinned.result()
            self._pinned = self._threads.submit(self._receive_pinned)
        self._workers[self._given % len(self._workers)].order(_MORE)
        self._given += 1
        return batch

    def restart(self) -> None:
        """Begin again with the first batch, in the same processes."""
        if self._pinned is not None:
            self._pinned.result()
        for worker in self._workers:
            worker.order(_RESTART)
        for worker in self._workers:
            while worker.receive(self._letters) is not None:
                pass
        self._start()

    def close(self) -> None:
        """End the processes. Batches that are there stay good."""
        if self._end.alive and self._threads is not None:
            for process in self.processes:
                process.kill()
            self._threads.shutdown()  # it reads what is about to be closed
        self._end()

    def _start(self) -> None:
        self._taken = self._given = 0
        self._pinned = None
        for worker in self._workers:
            worker.order(_MORE * self._ahead)

    def _receive(self) -> Batch:
        batch = self._workers[self._taken % len(self._workers)].receive(self._letters)
        self._taken += 1
        assert isinstance(batch, Batch)
        return batch

    def _receive_pinned(self) -> Batch:
        return self._receive().pin_memory()

    def _fork(self, dataset: TrainingBatches, number: int, num_workers: int) -> _Worker:
        orders, give_orders = os.pipe()
        read_messages, messages = os.pipe()
        # Whoever reads learns of the other side's end only when no other process has that side, too.
        strange = [give_orders, read_messages]
        strange += [handle for worker in self._workers for handle in (worker.orders, worker.messages)]
        side = _Side(number, num_workers, orders, messages, self._slots, self._letters)
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(dataset, side, strange), daemon=True
        )
        process.start()
        os.close(orders)
        os.close(messages)
        return _Worker(number, process, give_orders, read_messages)


def _pinning_thread() -> ThreadPoolExecutor:
    """A thread for the copies into page-locked memory, on the device of the one that calls."""
    if not torch.cuda.is_available():
        return ThreadPoolExecutor(1, "pin")
    device = torch.cuda.current_device()
    return ThreadPoolExecutor(1, "pin", initializer=torch.cuda.set_device, initargs=(device,))


def _end_workers(workers: Sequence[_Worker], slots: AudioSlots, owner: int) -> None:
    """They have nothing to save. A process forked later has copies of all this and must leave it alone."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        os.close(worker.orders)
        os.close(worker.messages)
    slots.close()


@dataclass
class _Side:
    """What a loader process needs to hear and to answer."""

    number: int
    num_workers: int
    orders: int
    messages: int
    slots: AudioSlots
    letters: _Letters
    sent: int = 0

    def next_order(self) -> bytes:
        """One byte; none when the process that trains is gone."""
        poller = select.poll()
        poller.register(self.orders, select.POLLIN)
        parent = multiprocessing.parent_process()
        assert parent is not None
        while not poller.poll(_CHECK_MS):
            if os.getppid() != parent.pid:
                return b""
        return os.read(self.orders, 1)

    def send(self, kind: bytes, value: object) -> None:
        content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if kind == _LETTER and len(content) <= LETTER_BYTES:
            self.letters.place(self.number, self.sent, len(content))[:] = content
            os.write(self.messages, _HEADER.pack(kind, len(content)))
        else:
            left = memoryview(_HEADER.pack(_PIPED if kind == _LETTER else kind, len(content)) + content)
            while left:
                left = left[os.write(self.messages, left) :]
        self.sent += 1


def _work(dataset: TrainingBatches, side: _Side, strange: Sequence[int]) -> None:
    """What a loader process does until nobody wants a batch any more."""
    for handle in strange:
        os.close(handle)
    torch.set_num_threads(1)
    leave_signals_to_the_run(side.number)
    side.slots.serve(side.number)
    stream = dataset.stream(side.number, side.num_workers, side.slots)
    with suppress(BrokenPipeError):  # the process that trains is gone
        while order := side.next_order():
            if order == _RESTART:
                stream = dataset.stream(side.number, side.num_workers, side.slots)
                side.send(_RESTARTED, None)
                continue
            try:
                batch = next(stream)
            except Exception:
                error = ExceptionWrapper(where=f"in loader process {side.number}")  # type: ignore[no-untyped-call]
                side.send(_FAILED, error)
                return
            side.send(_LETTER, batch)
            del batch
