"""The stage in whole runs: it sets in, is logged, resumes bit for bit, and works with two ranks."""

import csv
import json
import math
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from amt.model.checkpoint_file import RL_START_WEIGHTS, read_checkpoint
from amt.training.module import TranscriptionModule

TINY = Path(__file__).parents[1] / "training" / "tiny.py"
RL = {
    "rl__enabled": True,
    "rl__weight": 0.5,
    "rl__reward": "token_acc",
    "rl__num_samples": 2,
    "rl__max_tokens": 12,
    "trainer__val_interval": 100,
    "trainer__gradient_clip": 0.0,
    "lr_schedule__name": "constant",
}


def curve(folder, column):
    with open(folder / "metrics.csv", newline="") as file:
        return {int(row["step"]): row[column] for row in csv.DictReader(file) if row.get(column)}


def last(folder):
    return folder / "checkpoints" / "last.ckpt"


def go(tiny, folder, sines, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tiny.train(folder, sines, **{**RL, **changes}) == 0
    return folder


def test_it_sets_in_at_its_step_and_is_logged(tiny, sines, tmp_path):
    folder = go(tiny, tmp_path / "p" / "on", sines, rl__start=2, rl__entropy_weight=0.1, trainer__max_steps=4)
    plain = go(tiny, tmp_path / "p" / "off", sines, rl__enabled=False, trainer__max_steps=4)
    losses, others = curve(folder, "train_loss"), curve(plain, "train_loss")
    assert [losses[step] == others[step] for step in (1, 2, 3, 4)] == [True, True, False, False]
    for name in ("rl", "rl_reward", "rl_baseline", "rl_advantage_std", "rl_entropy", "rl_length"):
        values = curve(folder, name)
        assert list(values) == [3, 4]
        assert all(math.isfinite(float(value)) for value in values.values())
    assert all(0 <= float(value) <= 1 for value in curve(folder, "rl_reward").values())
    shares = curve(folder, "rl_time_share")
    assert list(shares) == [3, 4]
    assert all(0 < float(share) < 1 for share in shares.values())
    assert curve(plain, "rl_reward") == {}
    # The same draws and dropout: the loss differs by the weighted term alone.
    parts = ("token_ce", "frame_voice_pitch", "frame_voice_onset")
    total = sum(float(curve(folder, name)[3]) for name in parts) + 0.5 * float(curve(folder, "rl")[3])
    assert float(losses[3]) == pytest.approx(total, rel=1e-5)


def test_a_batch_that_is_not_finite_is_dropped(tiny, sines, tmp_path, monkeypatch):
    """Its states, the samples drawn from them and the term are not finite either."""
    train = TranscriptionModule.training_step

    def training_step(self, batch, batch_idx):
        if self.global_step == 1:
            batch.audio.fill_(math.nan)
        return train(self, batch, batch_idx)

    monkeypatch.setattr(TranscriptionModule, "training_step", training_step)
    more = {"rl__baseline": "ema", "rl__entropy_weight": 0.1, "rl__kl_weight": 0.5, "rl__top_p": 0.9}
    folder = go(tiny, tmp_path / "p" / "nan", sines, **more, trainer__max_steps=4)
    assert curve(folder, "num_dropped_steps") == {1: "0", 2: "1", 3: "1", 4: "1"}
    assert all(math.isfinite(float(curve(folder, "rl")[step])) for step in (1, 3, 4))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rl__baseline": "ema", "rl__kl_weight": 0.5, "rl__start": 1}, id="ema and KL"),
        pytest.param({"rl__baseline": "group", "rl__entropy_weight": 0.1}, id="group and entropy"),
    ],
)
def test_a_resumed_run_is_the_whole_run(tiny, sines, tmp_path, changes):
    changes |= {
        "trainer__max_steps": 6,
        "trainer__accumulate_grad_batches": 2,
        "checkpoint__save_every_n_train_steps": 3,
        "fault": "nan@3:0",
    }
    whole = go(tiny, tmp_path / "p" / "whole", sines, **changes)
    parts = tmp_path / "p" / "parts"
    last(parts).parent.mkdir(parents=True)

    go(tiny, tmp_path / "p" / "short", sines, **changes | {"trainer__max_steps": 4})
    shutil.copy(last(tmp_path / "p" / "short"), last(parts))
    go(tiny, parts, sines, checkpoint=str(last(parts)), kind="resume", step=4, **changes)
    for column in ("train_loss", "rl", "rl_reward", "rl_baseline", "rl_entropy"):
        expected = {step: value for step, value in curve(whole, column).items() if step > 4}
        assert list(expected) == [5, 6]
        assert curve(parts, column) == expected, column
    one, two = read_checkpoint(last(whole)), read_checkpoint(last(parts))
    for name, value in one["state_dict"].items():
        assert torch.equal(value, two["state_dict"][name]), name
    assert one["amt_state"]["reinforce"] == two["amt_state"]["reinforce"]
    if "rl__kl_weight" in changes:
        for name, value in one[RL_START_WEIGHTS].items():
            assert torch.equal(value, two[RL_START_WEIGHTS][name]), name
            assert value.shape == one["state_dict"][f"model.{name}"].shape
    else:
        assert RL_START_WEIGHTS not in one


def test_a_dropped_step_leaves_the_average_as_it_was(tiny, sines, tmp_path, monkeypatch):
    from amt.rl.reinforce import Reinforce

    seen = []
    settle = Reinforce.settle

    def watched(self, dropped):
        before = self.baseline.ema
        settle(self, dropped)
        seen.append((dropped, before, self.baseline.ema))

    monkeypatch.setattr(Reinforce, "settle", watched)
    changes = {"rl__baseline": "ema", "rl__reward": "token_acc", "trainer__max_steps": 3}
    go(tiny, tmp_path / "p" / "drop", sines, fault="nan@2:0", **changes)
    assert [dropped for dropped, _, _ in seen] == [False, True, False]
    (_, nothing, first), (_, *kept), (_, _, last_one) = seen
    assert nothing is None
    assert kept == [first, first]
    assert last_one is not None


def test_with_bf16(tiny, sines, tmp_path):
    folder = go(tiny, tmp_path / "p" / "bf16", sines, trainer__precision="bf16-mixed", trainer__max_steps=2)
    assert all(math.isfinite(float(value)) for value in curve(folder, "rl").values())


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["batch", "ema", "greedy"])
def test_two_ranks(sines, tmp_path, baseline):
    folder, dump = tmp_path / "p" / "two", tmp_path / "dump"
    settings = {
        "folder": str(folder),
        "data_home": str(sines),
        "fault": "nan@2:1",
        "dump": str(dump),
        "trainer__devices": "2",
        "trainer__strategy": "ddp",
        "trainer__max_steps": 4,
        **RL,
        "rl__baseline": baseline,
    }
    done = subprocess.run(
        [sys.executable, str(TINY), json.dumps(settings)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (torch.load(dump / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first["num_dropped"] == second["num_dropped"] == 1
    for name, value in first["model"].items():
        assert torch.isfinite(value).all()
        if "running" not in name:
            assert torch.equal(value, second["model"][name]), name
    assert list(curve(folder, "rl_reward")) == [1, 2, 3, 4]
