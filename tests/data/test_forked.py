"""Loader processes that are forked: their ends, their errors, and what they send."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from amt.data import forked
from amt.data.batch import Batch
from amt.data.dataset import TrainingBatches
from amt.data.forked import ForkedBatches
from amt.data.slots import AudioSlots
from forked_loading import AHEAD, module

drawn = functools.partial(module, stem_keep_prob=0.5, noise_prob=0.3)
"""Batches of which no two are of one kind."""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="loader processes are forked on Linux only")


def forked_batches(home: Path, workers: int, *, pin: bool = False) -> ForkedBatches:
    dataset = drawn(home, workers).train_dataloader().dataset
    assert isinstance(dataset, TrainingBatches)
    return ForkedBatches(dataset, workers, AHEAD, pin=pin)


def same(one: Batch, other: Batch) -> None:
    for name in one.__dataclass_fields__:
        first, second = getattr(one, name), getattr(other, name)
        assert first is second is None or torch.equal(first, second), name


@pytest.fixture(scope="module")
def alone(data_home: Path) -> list[Batch]:
    """The first batches as one process makes them."""
    return list(itertools.islice(drawn(data_home, 0).train_dataloader(), 12))


def gone(batches: ForkedBatches) -> bool:
    """Whether all its processes have ended, and are waited for."""
    return all(process.exitcode is not None for process in batches.processes)


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_same_batches_in_the_same_order(
    data_home: Path, alone: list[Batch], monkeypatch: pytest.MonkeyPatch, workers: int, pin: bool
) -> None:
    pinned: list[int] = []

    def note(batch: Batch) -> Batch:
        pinned.append(int(batch.sample_number[0]))
        return batch

    monkeypatch.setattr(Batch, "pin_memory", note)
    batches = forked_batches(data_home, workers, pin=pin)
    for expected in alone:
        same(next(batches), expected)
    batches.close()
    assert gone(batches)
    assert pinned[: len(alone)] == [4 * number for number in range(len(alone) if pin else 0)]


@pytest.mark.parametrize("room", [1, 3000, 1 << 20])
@pytest.mark.parametrize("slots", [True, False])
def test_what_does_not_fit_the_shared_memory_arrives(
    data_home: Path, alone: list[Batch], monkeypatch: pytest.MonkeyPatch, room: int, slots: bool
) -> None:
    """All, some or none of the batches go through the pipe; with its sound one is twice what a pipe holds."""
    sizes = [len(pickle.dumps(dataclasses.replace(batch, audio=torch.zeros(0)))) for batch in alone]
    assert min(sizes) < 3000 < max(sizes)
    monkeypatch.setattr(forked, "LETTER_BYTES", room)
    if not slots:
        monkeypatch.setattr(AudioSlots, "take", lambda *_: None)
    batches = forked_batches(data_home, 2)
    for expected in alone:
        same(next(batches), expected)
    batches.close()


@pytest.mark.parametrize("pin", [False, True])
def test_it_begins_again_in_the_same_processes(
    data_home: Path, alone: list[Batch], monkeypatch: pytest.MonkeyPatch, pin: bool
) -> None:
    monkeypatch.setattr(Batch, "pin_memory", lambda batch: batch)
    batches = forked_batches(data_home, 2, pin=pin)
    before = [process.pid for process in batches.processes]
    for taken in (5, 0, 3):
        for expected in alone[:taken]:
            same(next(batches), expected)
        batches.restart()
    for expected in alone:
        same(next(batches), expected)
    assert [process.pid for process in batches.processes] == before
    assert not gone(batches)
    batches.close()


@pytest.mark.parametrize("persistent", [True, False])
def test_persistent_processes_are_kept_by_their_loader(
    data_home: Path, alone: list[Batch], persistent: bool
) -> None:
    loader = drawn(data_home, 2, persistent=persistent).train_dataloader()
    found = []
    for _ in range(2):
        batches = iter(loader)
        assert isinstance(batches, ForkedBatches)
        for expected in alone[:3]:
            same(next(batches), expected)
        found.append([process.pid for process in batches.processes])
    assert (found[0] == found[1]) == persistent


def made_so_far(data_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """From now on loader processes leave a file for each batch they make; counts them."""
    stream = TrainingBatches.stream

    def noted(
        dataset: TrainingBatches, worker: int, num_workers: int, slots: AudioSlots | None = None
    ) -> Iterator[Batch]:
        for number, batch in enumerate(stream(dataset, worker, num_workers, slots)):
            (tmp_path / f"{worker}.{number}").touch()
            yield batch

    monkeypatch.setattr(TrainingBatches, "stream", noted)
    return lambda: len(list(tmp_path.iterdir()))


def test_no_process_is_further_ahead_than_allowed(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = made_so_far(data_home, monkeypatch, tmp_path)
    batches = forked_batches(data_home, 2)
    for taken in range(5):
        wanted = 2 * AHEAD + taken
        for _ in range(600):
            if count() >= wanted:
                break
            time.sleep(0.1)
        time.sleep(0.2)
        assert count() == wanted
        next(batches)
    batches.close()


@pytest.mark.parametrize("pin", [False, True])
def test_a_killed_process_is_named_and_the_others_end(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, pin: bool
) -> None:
    monkeypatch.setattr(Batch, "pin_memory", lambda batch: batch)
    batches = forked_batches(data_home, 2, pin=pin)
    next(batches)
    pid = batches.processes[1].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"loader process 1 \(pid {pid}\) ended .* signal 9 \(Killed\)"):
        list(itertools.islice(batches, 4 * AHEAD))
    assert not gone(batches)
    batches.close()
    assert gone(batches)


def test_an_error_in_a_process_is_raised_with_its_place(
    data_home: Path, alone: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = TrainingBatches.stream

    def broken(
        dataset: TrainingBatches, worker: int, num_workers: int, slots: AudioSlots | None = None
    ) -> Iterator[Batch]:
        yield from itertools.islice(stream(dataset, worker, num_workers, slots), 2 if worker else None)
        raise ValueError("song é is broken")

    monkeypatch.setattr(TrainingBatches, "stream", broken)
    batches = forked_batches(data_home, 2)
    for expected in alone[:5]:  # those before it are given
        same(next(batches), expected)
    with pytest.raises(ValueError, match=r"loader process 1(.|\n)*song é is broken"):
        next(batches)
    batches.close()


def test_signals_to_the_group_end_no_process(data_home: Path, alone: list[Batch]) -> None:
    batches = forked_batches(data_home, 2)
    same(next(batches), alone[0])
    for process in batches.processes:
        assert process.pid is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(process.pid, number)
    for expected in alone[1:]:
        same(next(batches), expected)
    batches.close()


def test_the_last_reference_ends_the_processes(data_home: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    batches = forked_batches(data_home, 2)
    batch = next(batches)
    processes = batches.processes
    del batches
    gc.collect()
    assert all(process.exitcode is not None for process in processes)
    del processes
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert torch.isfinite(batch.audio).all()


def _use_and_leave(data_home: Path, kept: list[ForkedBatches], told: str) -> None:
    kept.clear()
    gc.collect()
    own = forked_batches(data_home, 2)
    next(own)
    Path(told).write_text(" ".join(str(process.pid) for process in own.processes))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_parent_leaves_no_process_and_a_fork_ends_none(
    data_home: Path, alone: list[Batch], tmp_path: Path
) -> None:
    kept = [forked_batches(data_home, 2)]
    same(next(kept[0]), alone[0])
    told = tmp_path / "pids"
    child = multiprocessing.get_context("fork").Process(
        target=_use_and_leave, args=(data_home, kept, str(told))
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    left = [Path("/proc") / pid / "cmdline" for pid in told.read_text().split()]
    for _ in range(600):
        if not any(path.exists() and path.read_bytes() for path in left):
            break
        time.sleep(0.1)
    assert not any(path.exists() and path.read_bytes() for path in left)  # a zombie has no command line
    for expected in alone[1:]:
        same(next(kept[0]), expected)
    kept[0].close()


def test_it_takes_one_number_from_the_random_stream(data_home: Path) -> None:
    """As torch's loader does, so that a run's own draws do not depend on the number of processes."""
    after = []
    for workers in (0, 1):
        torch.manual_seed(3)
        batches = iter(drawn(data_home, workers).train_dataloader())
        next(batches)
        after.append(torch.rand(4))
        del batches
    assert torch.equal(*after)
