"""A run that is killed anywhere and goes on is the run that was never interrupted, to the last bit."""

import copy
import csv
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch.distributed import HashStore

from amt.config import CheckpointConfig
from amt.model.checkpoint_file import TRAINED_WEIGHTS, read_checkpoint
from amt.optim import build_optimizer, build_scheduler
from amt.training import signals
from amt.training.module import TranscriptionModule
from amt.training.signals import StopWish, requeue
from amt.training.state import adopt_optimizer, upgrade_checkpoint, validation_is_missing
from script_loading import load_script

HERE = Path(__file__).parent
LONG = {
    "trainer__max_steps": 8,
    "trainer__accumulate_grad_batches": 2,
    "data__samples_per_epoch": 12,
    "checkpoint__save_every_n_train_steps": 2,
    "dataio__num_workers": 0,
}
FAULT = "nan@2:0"
"""Every run here drops its second step: ``nan_lr_scale`` is 0.5 from then on."""


class Killed(Exception):
    """Ends a run as a kill does: nothing is saved any more."""


def rows(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def curve(folder, column):
    return {int(row["step"]): row[column] for row in rows(folder) if row.get(column)}


def last(folder):
    return folder / "checkpoints" / "last.ckpt"


def go(tiny, folder, sines, *, resume=False, **changes):
    """One start of the run, as its identity decides it."""
    decided = {}
    if resume:
        step = read_checkpoint(last(folder))["global_step"]
        decided = {"checkpoint": last(folder), "kind": "resume", "step": step}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tiny.train(folder, sines, fault=FAULT, **decided, **{**LONG, **changes})


def die_at(monkeypatch, hook, step, batch):
    """The run ends where ``hook`` is called at that step, for that batch of the step or of the validation."""
    original = getattr(TranscriptionModule, hook)

    def dying(self, item, batch_idx):
        place = batch_idx if hook == "validation_step" else batch_idx % 2
        if (self.global_step, place) == (step, batch):
            raise Killed
        return original(self, item, batch_idx)

    monkeypatch.setattr(TranscriptionModule, hook, dying)


def assert_same_run(whole, parts):
    """Losses, rates, validations, weights, moments, schedule, average, ranking."""
    for column in ("train_loss", "lr", "grad_norm", "nan_lr_scale", "val_loss", "train_loss_epoch"):
        assert curve(parts, column) == curve(whole, column), column
    one, two = read_checkpoint(last(whole)), read_checkpoint(last(parts))
    for key in ("state_dict", TRAINED_WEIGHTS, "optimizer_states", "lr_schedulers"):
        assert_equal(one.get(key), two.get(key), key)
    clockless = [{**item["amt_state"], "elapsed_seconds": 0} for item in (one, two)]
    assert clockless[0] == clockless[1]
    rankings = [item["callbacks"]["CustomModelCheckpoint"]["ranking"] for item in (one, two)]
    assert rankings[0] == rankings[1]
    best = sorted(path.name for path in (whole / "checkpoints").glob("epoch=*.ckpt"))
    assert sorted(path.name for path in (parts / "checkpoints").glob("epoch=*.ckpt")) == best


def assert_equal(one, two, where):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two), where
    elif isinstance(one, dict):
        assert one.keys() == two.keys(), where
        for key in one:
            assert_equal(one[key], two[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(two), where
        for number, (first, second) in enumerate(zip(one, two, strict=True)):
            assert_equal(first, second, f"{where}.{number}")
    else:
        assert one == two, where


@pytest.fixture(scope="module")
def whole(tiny, sines, tmp_path_factory):
    """8 steps of 2 batches, 3 steps an epoch, validated at 3, 6 and the end, never interrupted."""
    folder = tmp_path_factory.mktemp("logs") / "p" / "whole"
    assert go(tiny, folder, sines) == 0
    assert list(curve(folder, "val_loss")) == [3, 6, 8]
    assert set(curve(folder, "nan_lr_scale").values()) == {"1", "0.5"}
    return folder


@pytest.mark.parametrize(
    ("hook", "step", "batch", "saved", "validated", "workers"),
    [
        pytest.param(
            "training_step", 3, 1, 3, 3, 0, id="in a step, right after an epoch's end and a validation"
        ),
        pytest.param("training_step", 5, 0, 4, 3, 0, id="in the middle of an epoch"),
        pytest.param(
            "validation_step", 6, 1, 6, 3, 1, id="inside a validation, then with another worker count"
        ),
        pytest.param("validation_step", 8, 0, 8, 6, 0, id="inside the last validation"),
    ],
)
def test_a_killed_run_is_the_whole_run(
    tiny, sines, whole, tmp_path, monkeypatch, caplog, hook, step, batch, saved, validated, workers
):
    folder = tmp_path / "p" / "parts"
    with monkeypatch.context() as patch:
        die_at(patch, hook, step, batch)
        with pytest.raises(Killed):
            go(tiny, folder, sines)
    state = read_checkpoint(last(folder))
    assert (state["global_step"], state["amt_state"]["last_validated_step"]) == (saved, validated)
    moved = tmp_path / "q é" / "renamed"
    moved.parent.mkdir()
    folder.rename(moved)
    assert go(tiny, moved, sines, resume=True, dataio__num_workers=workers) == 0
    assert_same_run(whole, moved)
    assert "learning rate: it goes on" not in caplog.text


def test_a_run_of_an_older_format_goes_on_bit_for_bit(tiny, sines, whole, tmp_path):
    """Format 1 had neither the end of the run in its state nor factors on the rate of groups."""
    folder = tmp_path / "p" / "old"
    checkpoint = read_checkpoint(whole / "checkpoints" / "step=4.ckpt")
    checkpoint["amt_format"] = 1
    for key in ("end_step", "num_dropped_steps"):
        del checkpoint["amt_state"][key]
    for group in checkpoint["optimizer_states"][0]["param_groups"]:
        del group["lr_scale"]
    experiment = json.loads(checkpoint["experiment"])
    for key in ("freeze", "lr_decay", "ema_decay"):
        del experiment["OPTIMIZER"][key]
    checkpoint["experiment"] = json.dumps(experiment)
    last(folder).parent.mkdir(parents=True)
    torch.save(checkpoint, last(folder))
    assert go(tiny, folder, sines, resume=True) == 0
    for column in ("train_loss", "lr", "val_loss"):
        expected = {step: value for step, value in curve(whole, column).items() if step > 4}
        assert curve(folder, column) == expected
    assert_equal(
        read_checkpoint(last(whole))["optimizer_states"],
        read_checkpoint(last(folder))["optimizer_states"],
        "",
    )


def test_a_stored_file_of_format_1_is_resumed(tiny, sines, tmp_path):
    source = HERE / "data" / "format1_step4.ckpt"
    assert read_checkpoint(source)["amt_format"] == 1
    small = {"model__decoder__d_model": 8, "model__decoder__num_heads": 1, "model__decoder__d_kv": 8}
    folder = tmp_path / "p" / "old"
    changes = {**LONG, **small, "trainer__max_steps": 5, "trainer__val_interval": 100}
    assert tiny.train(folder, sines, checkpoint=source, kind="resume", step=4, **changes) == 0
    recorded = json.loads((HERE / "data" / "format1.json").read_text())["losses"]["5"]
    assert float(curve(folder, "train_loss")[5]) == pytest.approx(recorded, rel=0.1)
    new = read_checkpoint(last(folder))
    assert (new["amt_format"], new["global_step"], new["amt_state"]["consumed_samples"]) == (2, 5, 20)
    assert {int(state["step"]) for state in new["optimizer_states"][0]["state"].values()} == {5}


def test_a_signal_inside_a_validation_acts_at_once(tiny, sines, whole, tmp_path, monkeypatch, capsys):
    heard = []
    original = TranscriptionModule.validation_step

    def interrupted(self, item, batch_idx):
        heard.append((self.global_step, batch_idx))
        if self.global_step == 3:
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(self, item, batch_idx)

    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f"#!/bin/sh\necho \"$@\" > '{tools}/said'\n")
    (tools / "scontrol").chmod(0o755)
    folder = tmp_path / "p" / "parts"
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        patch.setattr(TranscriptionModule, "validation_step", interrupted)
        patch.setenv("SLURM_JOB_ID", "17")
        assert go(tiny, folder, sines) == 128 + signal.SIGUSR1
    assert heard == [(3, 0)], "of three songs"
    said = capsys.readouterr()
    assert "cut short by a signal" in said.err
    assert "the validation of this step runs first" in said.out
    assert "SLURM job 17 requeued" in said.out
    assert (tools / "said").read_text() == "requeue 17\n"
    assert curve(folder, "val_loss") == {}
    state = read_checkpoint(last(folder))
    assert (state["global_step"], state["amt_state"]["last_validated_step"]) == (3, -1)
    assert go(tiny, folder, sines, resume=True) == 0
    assert_same_run(whole, folder)


def test_the_end_of_an_epoch_is_an_end_like_any_other(tiny, sines, whole, tmp_path, capsys):
    """Case A01: the limit is the end of an epoch, then one more."""
    folder = tmp_path / "p" / "ends"
    options = {"lr_schedule__name": "constant"}
    assert go(tiny, folder, sines, trainer__max_steps=6, **options) == 0
    before = last(folder).read_bytes()
    capsys.readouterr()
    assert go(tiny, folder, sines, resume=True, trainer__max_steps=6, **options) == 0
    assert "already at step 6" in capsys.readouterr().out
    assert last(folder).read_bytes() == before
    assert go(tiny, folder, sines, resume=True, trainer__max_steps=7, **options) == 0
    assert list(curve(folder, "train_loss")) == list(range(1, 8))
    assert list(curve(folder, "val_loss")) == [3, 6, 7]
    epochs = {int(row["step"]): int(row["epoch"]) for row in rows(folder) if row["train_loss"]}
    assert epochs == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2}


@pytest.mark.parametrize(
    ("first", "more", "lasts"),
    [
        ({"trainer__max_steps": 6}, {"trainer__max_steps": 9}, "9 steps, not 6 steps (-it)"),
        (
            {"trainer__max_steps": -1, "trainer__max_minutes": 0.002},
            {"trainer__max_steps": -1, "trainer__max_minutes": 10.0},
            "10 minutes, not 0.002 minutes (--max-minutes)",
        ),
        (
            {"trainer__max_steps": -1, "trainer__max_epochs": 2},
            {"trainer__max_steps": -1, "trainer__max_epochs": 3},
            "9 steps, not 6 steps (-e)",
        ),
    ],
    ids=["steps", "minutes", "epochs"],
)
def test_a_longer_schedule_says_how_the_rate_jumps(
    tiny, sines, tmp_path, monkeypatch, caplog, first, more, lasts
):
    folder = tmp_path / "p" / "longer"
    assert go(tiny, folder, sines, **first) == 0
    state = read_checkpoint(last(folder))
    [before] = {group["lr"] for group in state["optimizer_states"][0]["param_groups"]}
    assert before == pytest.approx(1e-5 * state["amt_state"]["nan_lr_scale"])
    step = state["global_step"]
    die_at(monkeypatch, "training_step", step + 2, 0)
    with pytest.raises(Killed):
        go(tiny, folder, sines, resume=True, trainer__val_interval=1000, **more)
    [sentence] = [line for line in caplog.messages if "learning rate: it goes on" in line]
    assert f"it was {before:.3g} when the run was saved: the schedule now lasts {lasts};" in sentence
    now = float(sentence.split("goes on at ")[1].split(",")[0])
    taken = float(curve(folder, "lr")[step + 1])
    assert now == pytest.approx(taken, rel=0.01)
    assert now > 10 * before


def averaging(**changes):
    return {"optimizer__ema_decay": 0.8, "checkpoint__save_before_val": True, **changes}


def test_the_moving_average_is_validated_saved_and_resumed(tiny, sines, whole, tmp_path, monkeypatch):
    unbroken, parts = tmp_path / "p" / "unbroken", tmp_path / "p" / "parts"
    assert go(tiny, unbroken, sines, **averaging()) == 0
    assert curve(unbroken, "train_loss") == curve(whole, "train_loss"), "training does not see the average"
    assert curve(unbroken, "val_loss") != curve(whole, "val_loss"), "validation does"
    with monkeypatch.context() as patch:
        die_at(patch, "validation_step", 6, 1)
        with pytest.raises(Killed):
            go(tiny, parts, sines, **averaging())
    assert go(tiny, parts, sines, resume=True, **averaging()) == 0
    assert_same_run(unbroken, parts)
    # The average is that of the weights after each step that was not dropped.
    states = {step: read_checkpoint(unbroken / "checkpoints" / f"step={step}.ckpt") for step in (4, 6, 8)}
    name = "model.decoder.lm_head.weight"
    trained = {step: state[TRAINED_WEIGHTS][name] for step, state in states.items()}
    final = read_checkpoint(last(whole))
    assert torch.equal(trained[8], final["state_dict"][name])
    averages = {step: state["state_dict"][name] for step, state in states.items()}
    assert not torch.equal(averages[8], trained[8])
    updates = {step: state["callbacks"]["WeightAverage"]["num_updates"] for step, state in states.items()}
    assert updates == {4: 3, 6: 5, 8: 7}, "the dropped step is none"
    # One step on: with the rule and the weights of every step it can be done by hand.
    every = tmp_path / "p" / "every"
    with monkeypatch.context() as patch:
        die_at(patch, "training_step", 4, 0)
        with pytest.raises(Killed):
            go(tiny, every, sines, **averaging(checkpoint__save_every_n_train_steps=1))
    files = [read_checkpoint(every / "checkpoints" / f"step={step}.ckpt") for step in (1, 3, 4)]
    average = files[0]["state_dict"][name]
    for updates_before, state in ((1, files[1]), (2, files[2])):
        decay = min(0.8, (1 + updates_before) / (10 + updates_before))
        average = average * decay + state[TRAINED_WEIGHTS][name] * (1 - decay)
        torch.testing.assert_close(state["state_dict"][name], average)
    # A file written while the network holds the average says the same.
    before = read_checkpoint(unbroken / "checkpoints" / "preval-step=3.ckpt")
    for key in ("state_dict", TRAINED_WEIGHTS):
        assert_equal(before[key], files[1][key], key)


def test_a_run_may_leave_its_average_or_begin_one(tiny, sines, whole, tmp_path, caplog):
    folder = tmp_path / "p" / "leaves"
    assert go(tiny, folder, sines, trainer__max_steps=4, lr_schedule__name="constant", **averaging()) == 0
    middle = read_checkpoint(last(folder))
    options = {"trainer__max_steps": 5, "lr_schedule__name": "constant"}
    assert go(tiny, folder, sines, resume=True, **options) == 0
    end = read_checkpoint(last(folder))
    assert TRAINED_WEIGHTS not in end
    name = "model.decoder.lm_head.weight"
    step = (end["state_dict"][name] - middle[TRAINED_WEIGHTS][name]).abs().max()
    assert step < 2e-3, "it goes on from the trained weights, not from the average"
    options["trainer__max_steps"] = 6
    assert go(tiny, folder, sines, resume=True, **options, **averaging()) == 0
    assert read_checkpoint(last(folder))["callbacks"]["WeightAverage"]["num_updates"] == 1


def test_adopting_an_optimizer_keeps_moments_where_it_can(tiny):
    experiment = tiny.experiment()
    layer = torch.nn.Linear(3, 3)

    def made(name="AdamW", decay=0.0, rate=1e-3, **options):
        optimizer = build_optimizer(name, layer.named_parameters(), rate, decay, **options)
        return optimizer, build_scheduler("constant", optimizer)

    old, schedule = made()
    layer(torch.ones(1, 3)).sum().backward()
    for _ in range(3):
        old.step()
        schedule.step()
    checkpoint = {
        "global_step": 3,
        "experiment": experiment.to_json(),
        "optimizer_states": [old.state_dict()],
        "lr_schedulers": [schedule.state_dict()],
    }

    def adopt(new, experiment):
        adopted = copy.deepcopy(checkpoint)
        remark = adopt_optimizer(adopted, experiment, *new)
        new[0].load_state_dict(adopted["optimizer_states"][0])
        new[1].load_state_dict(adopted["lr_schedulers"][0])
        return remark

    same = made(decay=0.25, rate=5e-4)
    assert adopt(same, experiment) == ""
    assert {int(state["step"]) for state in same[0].state.values()} == {3}
    assert same[0].param_groups[0]["weight_decay"] == 0.25
    assert same[0].param_groups[0]["lr"] == 5e-4
    other = made("AdamWScale")
    assert "start anew" in adopt(other, tiny.experiment(optimizer__name="AdamWScale"))
    assert len(other[0].state) == 0
    assert other[1].last_epoch == 3
    layers = made(lr_decay=0.5)
    layer.bias.requires_grad_(False)
    fewer = made()
    layer.bias.requires_grad_(True)
    assert adopt(layers, experiment) == "", "the groups are the same ones, at other rates"
    assert "start anew" in adopt(fewer, experiment)


def test_what_a_state_says_of_its_validation():
    def state(step, validated, end):
        return {
            "global_step": step,
            "amt_state": {"last_validated_step": validated, "end_step": end},
        }

    assert validation_is_missing(state(6, 3, 8), 3)
    assert not validation_is_missing(state(6, 6, 8), 3)
    assert not validation_is_missing(state(5, 3, 8), 3)
    assert validation_is_missing(state(8, 6, 8), 3), "the end of the run is validated too"
    old = {"amt_state": {"last_validated_step": 3}, "global_step": 5}
    assert not validation_is_missing(old, 3)
    upgrade_checkpoint(old)
    assert old["amt_state"]["num_dropped_steps"] == 0
    assert old["amt_format"] == 2


def test_a_wish_to_stop_reaches_every_rank(monkeypatch):
    store = HashStore()
    monkeypatch.setattr(signals, "_get_default_store", lambda: store)
    monkeypatch.setattr(signals.dist, "is_initialized", lambda: True)
    ranks = [StopWish(2), StopWish(2)]
    assert not any(rank.look(False) for rank in ranks)
    assert ranks[1].look(True)
    assert ranks[0].look(False)
    assert not StopWish(1).look(False)
    assert StopWish(1).look(True)


def test_requeue_speaks_of_what_happened(monkeypatch, tmp_path):
    said = []
    requeue({}, said.append)
    assert said == []
    monkeypatch.setenv("PATH", str(tmp_path))
    requeue({"SLURM_JOB_ID": "5", "SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "2"}, said.append)
    assert "SLURM job 4_2 could not be requeued" in said[0]


def test_a_gradient_scale_is_saved_and_restored(tmp_path):
    """Case A16: fp16 goes on at its scale; a file of bf16 can be continued in fp16 and the other way."""
    from pytorch_lightning.plugins.precision import MixedPrecision

    from amt.training.checkpoint_io import AtomicCheckpointIO

    scenario = load_script(HERE / "checkpoint_scenario.py")

    def fit(steps, precision, resume):
        plugins = [AtomicCheckpointIO(), precision]
        scenario.fit(
            tmp_path, scenario.TinyModule(), steps, config=CheckpointConfig(), plugins=plugins, resume=resume
        )

    file = tmp_path / "checkpoints" / "last.ckpt"
    fit(1, MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=512.0)), None)
    assert read_checkpoint(file)["MixedPrecision"]["scale"] == 512.0
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    fit(2, MixedPrecision("16-mixed", "cpu", scaler), file)
    assert scaler.get_scale() == 512.0
    fit(3, MixedPrecision("bf16-mixed", "cpu"), file)
    assert "MixedPrecision" not in read_checkpoint(file)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    fit(4, MixedPrecision("16-mixed", "cpu", scaler), file)
    assert scaler.get_scale() == 128.0


@pytest.mark.slow
def test_fifty_kills_lose_neither_a_file_nor_a_bit(tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_scenario.py"), str(tmp_path), "50", "3"],
        capture_output=True,
        text=True,
        timeout=3600,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer["kills"] == 50
    assert answer["steps"] > 50
    assert answer["different"] == []


@pytest.mark.slow
def test_a_signal_to_one_rank_ends_the_validation_of_both(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "two"
    done = tiny.start(
        folder,
        sines,
        limit=600,
        signal_in_validation=0,
        trainer__devices="2",
        trainer__strategy="ddp",
        trainer__max_steps=4,
        trainer__val_interval=2,
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr[-3000:]
    assert "cut short" in done.stderr
    state = read_checkpoint(last(folder))
    assert (state["global_step"], state["amt_state"]["last_validated_step"]) == (2, -1)
    assert curve(folder, "val_loss") == {}
