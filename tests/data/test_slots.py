"""The sound of batches in memory that loader processes share: used again, and only when nobody needs it."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import pickle
import sys
from pathlib import Path

import pytest
import torch

from amt.data import slots as slots_module
from amt.data.slots import AudioSlots, SlotPlace
from forked_loading import AHEAD, module

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="loader processes are forked on Linux only")


def test_slots_are_used_again(data_home: Path) -> None:
    loader = iter(module(data_home, 1).train_dataloader())
    places = {next(loader).audio.data_ptr() for _ in range(40)}
    assert len(places) <= AHEAD + 3


def test_kept_batches_stay_as_they_were(data_home: Path) -> None:
    alone = list(itertools.islice(module(data_home, 0).train_dataloader(), 30))
    loader = iter(module(data_home, 2).train_dataloader())
    kept = list(itertools.islice(loader, 30))  # more than there are slots
    views = [batch.audio[1:2, 0] for batch in kept]
    del kept
    for _ in range(30):
        next(loader)
    del loader
    gc.collect()
    for view, batch in zip(views, alone, strict=True):
        assert torch.equal(view, batch.audio[1:2, 0])


def test_a_second_sound_travels_too(data_home: Path) -> None:
    shifted = {"pitch_shift_range": (-2.0, 2.0), "pitch_shift_method": "device"}
    alone = itertools.islice(module(data_home, 0, **shifted).train_dataloader(), 20)
    loaded = itertools.islice(module(data_home, 1, **shifted).train_dataloader(), 20)
    found = 0
    for one, other in zip(alone, loaded, strict=True):
        assert torch.equal(one.audio, other.audio)
        assert (one.moving is None) == (other.moving is None)
        if one.moving is not None and other.moving is not None:
            assert torch.equal(one.moving, other.moving)
            found += 1
    assert found


def test_two_iterators_of_a_loader_share_nothing(data_home: Path) -> None:
    alone = list(itertools.islice(module(data_home, 0).train_dataloader(), 8))
    loader = module(data_home, 1, persistent=False).train_dataloader()
    one, other = iter(loader), iter(loader)
    for expected in alone:
        first, second = next(one), next(other)
        assert first.audio.data_ptr() != second.audio.data_ptr()
        assert torch.equal(first.audio, expected.audio)
        assert torch.equal(second.audio, expected.audio)


def test_the_registry_forgets_finished_iterators(data_home: Path) -> None:
    before = set(slots_module._OPEN)
    loader = iter(module(data_home, 1).train_dataloader())
    batch = next(loader)
    assert len(set(slots_module._OPEN) - before) == 1
    del loader
    gc.collect()
    assert set(slots_module._OPEN) == before
    assert torch.isfinite(batch.audio).all()


def test_a_received_batch_is_pickled_and_copied_whole(data_home: Path) -> None:
    batch = next(iter(module(data_home, 1).train_dataloader()))
    for twin in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert torch.equal(twin.audio, batch.audio)
        assert twin.audio.data_ptr() != batch.audio.data_ptr()


def test_a_slot_is_free_with_its_last_reference() -> None:
    slots = AudioSlots(num_workers=1, per_worker=2, size=10)
    slots._used[1] = 1
    tensor = slots.receive(SlotPlace(slots._key, 1, (2, 5)))
    row = tensor[1]
    del tensor
    assert slots._used[1] == 1
    del row
    assert slots._used[1] == 0
    slots.close()


def _drop(kept: list[torch.Tensor]) -> None:
    kept.clear()
    gc.collect()


def test_a_process_forked_later_frees_nothing() -> None:
    slots = AudioSlots(num_workers=1, per_worker=1, size=10)
    slots._used[0] = 1
    kept = [slots.receive(SlotPlace(slots._key, 0, (10,)))]
    child = multiprocessing.get_context("fork").Process(target=_drop, args=(kept,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert slots._used[0] == 1
    kept.clear()
    assert slots._used[0] == 0
    slots.close()
