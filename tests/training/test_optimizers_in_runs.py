"""Optimizers and schedules in whole runs: they train, and come back from a checkpoint as they were."""

import csv

import pytest
import torch

from amt.optim import OPTIMIZER_TABLE

HERE = sorted(set(OPTIMIZER_TABLE) - {"CPUAdam", "AdamW"})
"""Those that need nothing else installed; the tests of resuming have AdamW."""


def weights(folder):
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True, map_location="cpu")
    return checkpoint["state_dict"]


def go_on(tiny, sines, folder, step, **changes):
    last = folder / "checkpoints" / "last.ckpt"
    assert tiny.train(folder, sines, checkpoint=last, kind="resume", step=step, **changes) == 0


@pytest.mark.parametrize("rate", [None, 1e-2])
@pytest.mark.parametrize("name", HERE)
def test_each_optimizer_trains_and_resumes_exactly(tiny, sines, tmp_path, name, rate, capsys):
    changes = {
        "optimizer__name": name,
        "optimizer__learning_rate": rate,
        "optimizer__weight_decay": 0.1,
        "lr_schedule__name": "constant",
        "trainer__val_interval": 10,
    }
    whole, parted = tmp_path / "p" / "whole", tmp_path / "p" / "parted"
    assert tiny.train(whole, sines, **changes, trainer__max_steps=4) == 0
    said = capsys.readouterr().out
    assert ("finds its own learning rate" in said) == (rate is None and OPTIMIZER_TABLE[name].self_tuning)
    assert tiny.train(parted, sines, **changes, trainer__max_steps=2) == 0
    before = weights(parted)
    go_on(tiny, sines, parted, 2, **changes, trainer__max_steps=4)
    after, wanted = weights(parted), weights(whole)
    assert all(torch.equal(after[key], wanted[key]) for key in wanted)
    assert any(not torch.equal(after[key], before[key]) for key in before)


def test_plateau_follows_validation_and_comes_back(tiny, sines, tmp_path, monkeypatch, caplog):
    """The tiny network finds nothing in six steps, so every validation after the first brings nothing."""
    monkeypatch.setattr("amt.optim.schedules.PLATEAU_PATIENCE", 0)
    caplog.set_level("INFO")
    changes = {
        "lr_schedule__name": "plateau",
        "lr_schedule__warmup_steps": None,
        "trainer__val_interval": 1,
        "data__validation_files": 1,
    }

    def rates(folder):
        with open(folder / "metrics.csv", newline="") as file:
            return [float(row["lr"]) for row in csv.DictReader(file) if row["lr"]]

    whole, parted = tmp_path / "p" / "whole", tmp_path / "p" / "parted"
    assert tiny.train(whole, sines, **changes, trainer__max_steps=5) == 0
    assert rates(whole) == [2e-3, 2e-3, 1e-3, 0.5e-3, 0.25e-3]
    assert "-s plateau: 1 validations without a better score" in caplog.text
    assert tiny.train(parted, sines, **changes, trainer__max_steps=3) == 0
    go_on(tiny, sines, parted, 3, **changes, trainer__max_steps=5)
    assert rates(parted) == rates(whole)
