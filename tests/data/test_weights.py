"""Weights that change during a run."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from amt.config import AudioConfig, Augmentation, Experiment
from amt.config.data import BatchSizes, DataConfig, DataIO
from amt.data.module import TranscriptionData
from amt.data.weights import CAPACITY, WeightTable
from amt.tokenizer import NoteTokenizer


def test_entries_hold_from_their_sample_on() -> None:
    table = WeightTable(2)
    assert table.at(0) is None
    table.add(100, [1.0, 3.0])
    table.add(200, [0.0, 2.0])
    assert table.at(99) is None
    for number, expected in (
        (100, [0.25, 0.75]),
        (199, [0.25, 0.75]),
        (200, [0.0, 1.0]),
        (10**9, [0.0, 1.0]),
    ):
        found = table.at(number)
        assert found is not None
        assert found.tolist() == expected
    other = WeightTable(2)
    other.load(table.state())
    assert other.state() == table.state() == [[100.0, 0.25, 0.75], [200.0, 0.0, 1.0]]
    for first, weights in ((200, [1.0, 1.0]), (300, [1.0]), (300, [0.0, 0.0]), (300, [1.0, float("nan")])):
        with pytest.raises(ValueError, match=r"weights|after"):
            table.add(first, weights)


def test_old_entries_go() -> None:
    table = WeightTable(1)
    for number in range(CAPACITY + 5):
        table.add(number, [1.0])
    assert len(table.state()) == CAPACITY
    assert table.at(5) is not None
    with pytest.raises(AssertionError, match="sample 4"):  # rather than the wrong weights
        table.at(4)


def test_a_loaded_table_is_the_saved_one_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    table, other = WeightTable(7), WeightTable(7)
    for number in range(100):
        table.add(number, rng.random(7).tolist())
    other.load(table.state())
    assert other.state() == table.state()
    with pytest.raises(ValueError, match="after"):
        other.load([[5.0, *[1 / 7] * 7], [5.0, *[1 / 7] * 7]])


def run(workers: int, max_k: int = 0) -> Experiment:
    return Experiment(
        task="mc13_fsingle",
        event_length=256,
        audio=AudioConfig(segment_samples=16_000),
        data=DataConfig(("tones", "others")),
        bsz=BatchSizes(5, 10, 1, 1),
        dataio=DataIO(num_workers=workers, prefetch_factor=2, persistent_workers=True),
        augmentation=Augmentation(xaug_max_k=max_k, xaug_tau=0.1, pitch_shift_range=(0.0, 0.0)),
    )


def module(home: Path, workers: int, max_k: int = 0) -> TranscriptionData:
    tokenizer = NoteTokenizer.from_task("mc13_fsingle", segment_samples=16_000, max_length=256)
    return TranscriptionData(run(workers, max_k), tokenizer, home)


@pytest.mark.parametrize("workers", [0, 2])
def test_running_loaders_follow_a_change(data_home: Path, workers: int) -> None:
    data = module(data_home, workers)
    loader = iter(data.train_dataloader())
    before = [next(loader) for _ in range(3)]
    first = data.first_open_sample(30)
    assert first == (40 if workers == 0 else 30 + 10 * (2 * 2 + 1))
    data.weights.add(first, [0.0, 1.0])
    after = [next(loader) for _ in range(12)]
    numbers = torch.cat([batch.sample_number for batch in before + after])
    index = torch.cat([batch.dataset_index for batch in before + after])
    assert (index[numbers >= first] == 1).all()
    assert 0 < int((index[numbers < first] == 0).sum()) < int((numbers < first).sum())
    resumed = module(data_home, 0)
    resumed.weights.load(data.weights.state())
    again = iter(resumed.train_dataloader())
    for batch in before + after:
        other = next(again)
        torch.testing.assert_close(batch.audio, other.audio, rtol=0, atol=0)
    assert pickle.loads(pickle.dumps(resumed.weights.state())) == data.weights.state()


def test_foreign_sources_follow_a_change(data_home: Path) -> None:
    def foreign(weights: list[float]) -> int:
        """Notes of the other store in samples of ``tones``."""
        data = module(data_home, 0, max_k=2)
        data.weights.add(0, weights)
        loader = iter(data.train_dataloader())
        count = 0
        for batch in (next(loader) for _ in range(6)):
            of_tones = batch.dataset_index[batch.notes[:, 0].long()] == 0
            count += int(torch.isin(batch.notes[of_tones, 4].long(), torch.tensor([40, 73])).sum())
        return count

    assert foreign([1.0, 1.0]) > 0
    assert foreign([1.0, 0.0]) == 0
