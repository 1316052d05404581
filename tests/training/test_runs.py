"""Whole runs of the tiny network: exact resume, dropped steps, warm start, ends."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_write import write_checkpoint
from amt.training.callbacks.gate import ValidationGateByTrainLoss
from amt.training.module import TranscriptionModule
from amt.training.run_folder import RunFolder
from amt.training.speech import Speaker

PROGRAM = Path(__file__).with_name("tiny.py")


def rows(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def losses(folder):
    return {int(row["step"]): row["train_loss"] for row in rows(folder) if row["train_loss"]}


def validations(folder):
    return {int(row["step"]): row["val_loss"] for row in rows(folder) if row.get("val_loss")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_still_saves(sines, tmp_path, number):
    """What ``timeout``, launchers and Ctrl-C do: the loader processes hear the signal too."""
    folder = tmp_path / "p" / "signalled"
    settings = {"trainer__max_steps": 100000, "trainer__val_interval": 100000, "dataio__num_workers": 2}
    text = json.dumps({"folder": str(folder), "data_home": str(sines), **settings})
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            deadline = time.monotonic() + 300
            while not (folder / "metrics.csv").exists() or len(rows(folder)) < 3:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            os.killpg(process.pid, number)
            out, _ = process.communicate(timeout=300)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 128 + number, out
    assert "Traceback" not in out
    assert read_checkpoint(folder / "checkpoints" / "last.ckpt")["global_step"] >= 3


@pytest.fixture(scope="module")
def whole(tiny, sines, tmp_path_factory):
    """A run of 8 steps of 2 batches that was never interrupted."""
    folder = tmp_path_factory.mktemp("logs") / "p" / "whole"
    assert tiny.train(folder, sines, **LONG) == 0
    return folder


LONG = {
    "trainer__max_steps": 8,
    "trainer__accumulate_grad_batches": 2,
    "data__samples_per_epoch": 12,
    "checkpoint__save_every_n_train_steps": 2,
    "trainer__nan_lr_shrink_factor": 0.5,
}


def test_steps_validations_and_epochs_are_counted_in_steps(whole):
    assert list(losses(whole)) == list(range(1, 9))
    assert list(validations(whole)) == [3, 6, 8], "the last step is validated too"
    epochs = {int(row["step"]): int(row["epoch"]) for row in rows(whole) if row["train_loss"]}
    assert epochs == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2}
    names = sorted(path.name for path in (whole / "checkpoints").glob("*.ckpt"))
    assert "epoch=1-step=3-validation_macro_onset_f=0.0000.ckpt" in names
    assert "step=4.ckpt" in names


def test_what_a_run_costs_and_skips_is_logged(whole):
    names = (
        "segments_per_second",
        "tokens_per_second",
        "data_wait_share",
        "grad_norm",
        "num_dropped_steps",
        "nan_lr_scale",
        "memory_gib",
    )
    last = [row for row in rows(whole) if row["train_loss"]][-1]
    found = {name: float(last[name]) for name in names}
    assert all(found[name] > 0 for name in names if name not in ("num_dropped_steps", "data_wait_share"))
    assert found["num_dropped_steps"] == 0
    assert 0 <= found["data_wait_share"] <= 1
    assert 0.05 < found["memory_gib"] < 64


def test_a_killed_run_goes_on_bit_for_bit(tiny, sines, whole, tmp_path):
    folder = tmp_path / "p" / "killed"
    done = tiny.start(folder, sines, fault="kill@5", **LONG)
    assert done.returncode == -9
    last = folder / "checkpoints" / "last.ckpt"
    assert read_checkpoint(last)["global_step"] == 4
    assert tiny.train(folder, sines, checkpoint=last, kind="resume", step=4, fault="kill@5", **LONG) == 0
    assert losses(folder) == losses(whole)
    assert validations(folder) == validations(whole)
    first, second = (read_checkpoint(item / "checkpoints" / "last.ckpt") for item in (whole, folder))
    for name, value in first["state_dict"].items():
        assert torch.equal(value, second["state_dict"][name]), name
    assert first["amt_state"]["consumed_samples"] == second["amt_state"]["consumed_samples"] == 32
    assert first["lr_schedulers"] == second["lr_schedulers"]


def test_an_end_between_two_validations_changes_nothing_that_follows(tiny, sines, tmp_path):
    options = {"lr_schedule__name": "constant", "trainer__val_interval": 3}
    whole, parts = tmp_path / "p" / "whole", tmp_path / "p" / "parts"
    assert tiny.train(whole, sines, trainer__max_steps=7, **options) == 0
    assert tiny.train(parts, sines, trainer__max_steps=4, **options) == 0
    last = parts / "checkpoints" / "last.ckpt"
    state = read_checkpoint(last)
    assert (state["global_step"], state["amt_state"]["last_validated_step"]) == (4, 4)
    state["amt_state"]["elapsed_seconds"] = 1e9  # a long run; rates are of this start alone
    write_checkpoint(state, last)
    resumed = {"checkpoint": last, "kind": "resume", "step": 4}
    assert tiny.train(parts, sines, trainer__max_steps=7, **resumed, **options) == 0
    assert losses(parts) == losses(whole)
    rates = {row["step"]: row["segments_per_second"] for row in rows(parts) if row["segments_per_second"]}
    assert float(rates["5"]) > 1e-4
    found = validations(parts)
    assert list(found) == [3, 4, 6, 7]
    del found[4]
    assert found == validations(whole)
    first, second = (read_checkpoint(item / "checkpoints" / "last.ckpt") for item in (whole, parts))
    for name, value in first["state_dict"].items():
        assert torch.equal(value, second["state_dict"][name]), name


def test_a_last_state_that_was_not_saved_has_its_exit_status(tiny, sines, tmp_path, capsys):
    folder = tmp_path / "p" / "full"
    with pytest.warns(UserWarning, match="NOT saved"):
        assert tiny.train(folder, sines, fault="full-disk@save", trainer__max_steps=2) == 1
    assert "NOT saved" in capsys.readouterr().out
    assert not list((folder / "checkpoints").glob("*.ckpt"))


@pytest.mark.parametrize(("origin", "workers"), [("", 1), ("--num-workers", 3), ("AMT_NUM_WORKERS", 3)])
def test_workers_are_capped_unless_set(tiny, sines, tmp_path, monkeypatch, capsys, origin, workers):
    seen = []

    def stop(experiment, *rest, **more):
        seen.append(experiment.dataio.num_workers)
        raise KeyboardInterrupt

    monkeypatch.setattr("amt.data.workers.available_cores", lambda: 1)
    monkeypatch.setattr("amt.training.fit.TranscriptionData", stop)
    origins = {"dataio.num_workers": origin} if origin else {}
    with pytest.raises(KeyboardInterrupt):
        tiny.train(tmp_path / "p" / "x", sines, options={"origins": origins}, dataio__num_workers=3)
    assert seen == [workers]


def test_a_checkpoint_stands_alone(whole, tiny):
    checkpoint = read_checkpoint(whole / "checkpoints" / "last.ckpt")
    assert type(tiny.experiment()).from_json(checkpoint["experiment"]).exp_id == "tiny"
    assert json.loads(checkpoint["task"])["name"] == "mc13_fsingle_vocal"
    assert checkpoint["amt_state"]["last_validated_step"] == 8
    assert checkpoint["amt_state"]["nan_lr_scale"] == 1.0
    assert set(checkpoint["versions"]) >= {"amt", "torch", "pytorch_lightning"}
    assert all(name.startswith("model.") for name in checkpoint["state_dict"])


def test_a_validation_that_was_due_runs_first(tiny, sines, whole, tmp_path):
    """step=6.ckpt is written before the validation of step 6."""
    folder = tmp_path / "p" / "due"
    checkpoint = whole / "checkpoints" / "step=6.ckpt"
    assert read_checkpoint(checkpoint)["amt_state"]["last_validated_step"] == 3
    assert tiny.train(folder, sines, checkpoint=checkpoint, kind="resume", step=6, **LONG) == 0
    assert validations(folder) == {step: loss for step, loss in validations(whole).items() if step > 3}
    assert losses(folder) == {step: loss for step, loss in losses(whole).items() if step > 6}


def test_nothing_to_do_changes_nothing(tiny, sines, whole, capsys):
    last = whole / "checkpoints" / "last.ckpt"
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    changes = {**LONG}
    assert tiny.train(whole, sines, checkpoint=last, kind="resume", step=8, **changes) == 0
    changes["trainer__max_steps"] = 7
    assert tiny.train(whole, sines, checkpoint=last, kind="resume", step=8, **changes) == 2
    assert "8" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_a_nan_step_is_dropped_and_remembered(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "nan"
    with pytest.warns(UserWarning, match="step 2 is dropped"):
        assert tiny.train(folder, sines, fault="nan@2:0", trainer__max_steps=4) == 0
    found = losses(folder)
    assert found[2] == "0"
    checkpoint = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    assert checkpoint["global_step"] == 4
    assert checkpoint["amt_state"]["nan_lr_scale"] == 0.5
    assert checkpoint["amt_state"]["consumed_samples"] == 8
    assert all(torch.isfinite(value).all() for value in checkpoint["state_dict"].values())
    steps = {int(state["step"]) for state in checkpoint["optimizer_states"][0]["state"].values()}
    assert steps == {3}
    rates = {int(row["step"]): float(row["lr"]) for row in rows(folder) if row["train_loss"]}
    assert rates[3] == pytest.approx(2e-3 * 0.5)


def test_too_many_in_a_row_end_the_run_without_a_file(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "nans"
    with pytest.warns(UserWarning, match="dropped"), pytest.raises(RuntimeError, match=r"last\.ckpt"):
        tiny.train(folder, sines, fault="nan@1:0", trainer__max_consecutive_nonfinite=1)
    assert not list((folder / "checkpoints").glob("*.ckpt"))


@pytest.mark.parametrize("end", ["steps", "signal"])
def test_a_run_that_ends_on_a_dropped_step_is_saved(tiny, sines, tmp_path, capsys, monkeypatch, end):
    """Else each new start would take the same steps to the same NaN and never be finished."""
    folder, limit = tmp_path / "p" / "last", 3 if end == "steps" else 9
    changes = {"trainer__max_steps": limit, "trainer__val_interval": 9, "fault": "nan@3:0"}
    if end == "signal":
        train = TranscriptionModule.training_step

        def training_step(self, batch, batch_idx):
            if self.global_step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return train(self, batch, batch_idx)

        monkeypatch.setattr(TranscriptionModule, "training_step", training_step)
    status = tiny.train(folder, sines, **changes)
    assert status == (0 if end == "steps" else 143)
    last = folder / "checkpoints" / "last.ckpt"
    state = read_checkpoint(last)
    assert state["global_step"] == 3
    assert state["amt_state"]["nan_lr_scale"] == 0.5
    assert all(torch.isfinite(value).all() for value in state["state_dict"].values())
    if end == "steps":
        assert state["amt_state"]["last_validated_step"] == 3
        assert tiny.train(folder, sines, last, "resume", 3, **changes) == 0
        assert "run: finished, already at step 3" in capsys.readouterr().out


def test_warm_start(tiny, sines, whole, tmp_path, capsys):
    folder = tmp_path / "p" / "warm"
    source = whole / "checkpoints" / "last.ckpt"
    options = {"trainer__max_steps": 1, "optimizer__learning_rate": 1e-9}
    assert tiny.train(folder, sines, checkpoint=source, kind="warm", **options) == 0
    assert "tensors loaded" in capsys.readouterr().out
    new = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    assert new["global_step"] == 1
    old = read_checkpoint(source)["state_dict"]
    name = "model.decoder.embed.weight"
    torch.testing.assert_close(new["state_dict"][name], old[name], atol=1e-6, rtol=0)
    other = {"model__decoder__d_model": 48, "model__decoder__d_kv": 8, "model__decoder__num_heads": 3}
    with pytest.raises(ValueError, match=r"no weight of the decoder|no weight of the encoder"):
        tiny.train(tmp_path / "p" / "bad", sines, checkpoint=source, kind="warm", **other)
    assert not (tmp_path / "p" / "bad").exists()


def test_a_time_budget_ends_with_a_validation_and_a_file(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "budget"
    changes = {"trainer__max_steps": -1, "trainer__max_minutes": 0.3 / 60, "trainer__val_interval": 1000}
    assert tiny.train(folder, sines, **changes) == 0
    last = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    assert last["amt_state"]["elapsed_seconds"] >= 0.3
    assert list(validations(folder)) == [last["global_step"]]
    assert (
        tiny.train(
            folder,
            sines,
            checkpoint=folder / "checkpoints/last.ckpt",
            kind="resume",
            step=last["global_step"],
            **changes,
        )
        == 0
    )


def test_less_time_than_was_used_names_what_was_used(tiny, sines, tmp_path, capsys):
    folder = tmp_path / "p" / "used"
    assert tiny.train(folder, sines, trainer__max_steps=2) == 0
    last = folder / "checkpoints" / "last.ckpt"
    state = read_checkpoint(last)
    state["amt_state"]["elapsed_seconds"] = 192.0
    torch.save(state, last)
    resume = {"checkpoint": last, "kind": "resume", "step": 2, "trainer__max_steps": -1}
    capsys.readouterr()
    assert tiny.train(folder, sines, **resume, trainer__max_minutes=2.5) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "run: finished at step 2 after 3.2 minutes of training (--max-minutes 2.5); to go on give "
        "--max-minutes more than 3.2"
    )
    assert tiny.train(folder, sines, **resume, trainer__max_minutes=3.201) == 0
    assert "until 3.201 minutes, 3.2 of them used; validation" in capsys.readouterr().out


def test_data_prepared_again_is_said_on_resume(tiny, tmp_path, caplog):
    data, folder = tmp_path / "data", tmp_path / "p" / "again"
    tiny.make_store(data)
    assert tiny.train(folder, data, trainer__max_steps=2) == 0
    last = folder / "checkpoints" / "last.ckpt"
    resume = {"checkpoint": last, "kind": "resume"}
    assert tiny.train(folder, data, **resume, step=2, trainer__max_steps=3) == 0
    assert "prepared again" not in caplog.text
    shutil.rmtree(data / "sines")
    tiny.make_store(data, songs=(("train", 4), ("validation", 3)))
    assert tiny.train(folder, data, **resume, step=3, trainer__max_steps=4) == 0
    assert (
        "prepared again since this run was saved (sines (training): 3 songs, now 4; sines (validat"
        in caplog.text
    )
    caplog.clear()
    assert tiny.train(folder, data, **resume, step=4, trainer__max_steps=5) == 0
    assert "prepared again" not in caplog.text, "it was saved with the new data"


def test_settings_are_refused_before_a_file_is_touched(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "refused"
    with pytest.raises(ValueError, match="-it"):
        tiny.train(folder, sines, trainer__max_steps=-1)
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["scratch", "resume", "warm"])
def test_a_start_names_its_configuration_once_it_is_written(
    tiny, sines, whole, tmp_path, monkeypatch, capsys, kind
):
    folder = tmp_path / "p" / kind
    config = folder / "config.json"
    source = {} if kind == "scratch" else {"checkpoint": whole / "checkpoints" / "last.ckpt"}
    there = []
    write = Speaker.__call__

    def noted(self, line):
        if str(config) in line:
            there.append(config.exists())
        write(self, line)

    monkeypatch.setattr(Speaker, "__call__", noted)
    step = 8 if kind == "resume" else 0
    changes = {**LONG, "trainer__max_steps": step + 1}
    assert tiny.train(folder, sines, kind=kind, step=step, **source, **changes) == 0
    assert there == [True]
    assert f"run: its configuration is in {config}\n" in capsys.readouterr().out


def test_a_second_run_in_the_same_folder_is_refused(tiny, sines, tmp_path, capsys):
    folder = tmp_path / "p" / "twice"
    with RunFolder(folder).held():
        with pytest.raises(ValueError, match="another run is writing in"):
            tiny.train(folder, sines)
        assert not (folder / "config.json").exists()
        assert "config.json" not in capsys.readouterr().out
        assert tiny.train(folder, sines, options={"dry_run": True}) == 0, "it writes nothing"
    assert tiny.train(folder, sines, trainer__max_steps=1) == 0


def test_the_gate_leaves_out_validations_but_saves(tiny, sines, tmp_path):
    folder = tmp_path / "p" / "gate"
    changes = {"trainer__max_steps": 4, "trainer__val_interval": 2}
    assert tiny.train(folder, sines, options={"val_start_loss": 0.01}, **changes) == 0
    assert validations(folder) == {}
    state = read_checkpoint(folder / "checkpoints" / "last.ckpt")["amt_state"]
    assert state["last_validated_step"] == 4
    folder = tmp_path / "p" / "open"
    assert tiny.train(folder, sines, options={"val_start_loss": 100.0}, **changes) == 0
    assert list(validations(folder)) == [2, 4]


def test_the_gate_asks_all_ranks(monkeypatch):
    """Case b8: one rank is below the threshold, the other is not; both decide by the mean."""
    ranks = {0: 0.99, 1: 1.01}
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(
        torch.distributed, "all_reduce", lambda sums: sums.copy_(torch.tensor([sum(ranks.values()), 2.0]))
    )
    module = SimpleNamespace(device=torch.device("cpu"))
    means = []
    for loss in ranks.values():
        gate = ValidationGateByTrainLoss(1.0)
        gate.load_state_dict({"is_open": False, "total": loss, "count": 1})
        means.append(gate._mean(module))
    assert means == [1.0, 1.0]


@pytest.mark.parametrize("accumulate", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_two_ranks_drop_together_stay_equal_and_validate_as_one(tiny, sines, tmp_path, accumulate):
    folder, dump = tmp_path / "p" / "two", tmp_path / "dump"
    done = tiny.start(
        folder,
        sines,
        fault="nan@2:1",
        dump=str(dump),
        trainer__devices="2",
        trainer__strategy="ddp",
        trainer__max_steps=4,
        trainer__val_interval=3,
        trainer__accumulate_grad_batches=accumulate,
        trainer__validate_before_fit=True,
    )
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(dump / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first["lr_scale"] == second["lr_scale"] == 0.5
    assert first["num_dropped"] == 1
    for name, value in first["model"].items():
        assert torch.isfinite(value).all()
        assert torch.equal(value, second["model"][name]), name
    # Each rank's running statistics are of its own songs: they were shared for the last validation.
    assert any("running" in name for name in first["model"])
    for key, state in first["optimizer"].items():
        assert int(state["step"]) == 3
        for name, value in state.items():
            assert torch.equal(value, second["optimizer"][key][name])
    assert losses(folder)[2] == "0"
    assert list(validations(folder)) == [0, 3, 4]
    # Before the first step both have the weights of the seed: 3 songs on 2 ranks or on one are the same.
    alone = tmp_path / "p" / "one"
    assert tiny.train(alone, sines, trainer__validate_before_fit=True, trainer__max_steps=1) == 0
    one, two = rows(alone)[0], rows(folder)[0]
    assert float(one["val_loss"]) == pytest.approx(float(two["val_loss"]), rel=1e-5)
    scores = [key for key in one if "(sines)" in key]
    assert scores
    assert [one[key] for key in scores] == [two[key] for key in scores]
