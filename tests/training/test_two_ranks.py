"""Two gloo processes: bad numbers, validation and failures leave them equal, or end both."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.model.checkpoint_file import read_checkpoint

TWO = {"trainer__devices": "2", "trainer__strategy": "ddp"}


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def ends(dump: Path) -> list[dict[str, Any]]:
    """What each rank had when training ended."""
    return [torch.load(dump / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]


def assert_equal_and_finite(dump: Path) -> None:
    """Weights, statistics of norms, moments."""
    first, second = ends(dump)
    assert any("running_var" in name for name in first["model"])
    for name, value in first["model"].items():
        assert torch.isfinite(value).all(), name
        assert torch.equal(value, second["model"][name]), name
    assert first["optimizer"]
    for key, state in first["optimizer"].items():
        for name, value in state.items():
            assert torch.isfinite(torch.as_tensor(value)).all()
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(second["optimizer"][key][name]))
    assert (first["lr_scale"], first["num_dropped"]) == (second["lr_scale"], second["num_dropped"])


# float32 with accumulation runs with the fast tests: test_runs.py.
@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("precision", ["32", "bf16-mixed", "16-mixed"])
def test_a_nan_on_one_rank_is_dropped_by_both(
    tiny: Any, sines: Path, tmp_path: Path, precision: str, accumulate: int
) -> None:
    folder, dump = tmp_path / "p" / "nan", tmp_path / "dump"
    done = tiny.start(
        folder,
        sines,
        fault="nan@2:1",
        dump=str(dump),
        fp16=precision == "16-mixed",
        trainer__precision=precision,
        trainer__max_steps=4,
        trainer__val_interval=4,
        trainer__accumulate_grad_batches=accumulate,
        **TWO,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("step 2 is dropped") == 1
    assert_equal_and_finite(dump)
    [first, _] = ends(dump)
    assert (first["lr_scale"], first["num_dropped"]) == (0.5, 1)
    assert {int(state["step"]) for state in first["optimizer"].values()} == {3}
    losses = {int(row["step"]): float(row["train_loss"]) for row in rows(folder) if row["train_loss"]}
    assert losses[2] == 0
    assert all(losses[step] > 0 for step in (1, 3, 4))
    state = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    has_scaler = any("scale" in part for part in state.get("MixedPrecision", {}))
    assert has_scaler == (precision == "16-mixed"), "the format is the one that was asked for"


@pytest.mark.slow
def test_fifty_in_a_row_end_both_and_write_no_file(tiny: Any, sines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p" / "nans"
    done = tiny.start(folder, sines, nan_from=(1, 3), trainer__max_steps=80, trainer__val_interval=2, **TWO)
    assert done.returncode != 0
    assert done.stderr.count("50 in a row") == 1
    message = "the loss was not finite for 50 steps in a row (the last at step 52; the last good step was 2)"
    assert done.stderr.count(f"NonFiniteLossError: {message}") == 2, done.stderr[-3000:]
    assert read_checkpoint(folder / "checkpoints" / "last.ckpt")["global_step"] == 2


@pytest.mark.slow
def test_weights_stay_equal_with_a_frozen_encoder_and_an_unused_expert(
    tiny: Any, sines: Path, tmp_path: Path
) -> None:
    """200 steps. The router is made to leave out expert 3 on rank 1 alone in every second step, and expert 5
    on both ranks in every third."""
    folder, dump = tmp_path / "p" / "long", tmp_path / "dump"
    done = tiny.start(
        folder,
        sines,
        limit=900,
        dump=str(dump),
        steer_experts=(3, 5),
        model__decoder__ff_type="moe",
        model__decoder__moe_num_experts=16,
        model__decoder__moe_topk=1,
        optimizer__freeze=["encoder"],
        trainer__max_steps=200,
        trainer__val_interval=200,
        **TWO,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert_equal_and_finite(dump)
    first, second = ends(dump)
    for step in range(1, 201):
        used = first["used_experts"][step], second["used_experts"][step]
        if step % 2:
            assert [3 in experts for experts in used] == [True, False]
        assert [5 in experts for experts in used] == [step % 3 > 0] * 2
    moved = read_checkpoint(folder / "checkpoints" / "last.ckpt")["optimizer_states"][0]["state"]
    assert 0 < len(moved) < len(first["model"])
    assert {int(state["step"]) for state in moved.values()} == {200}


def first_validation(folder: Path) -> dict[str, float]:
    row = next(row for row in rows(folder) if row.get("val_loss"))
    names = [name for name in row if name == "val_loss" or name.startswith("validation/")]
    return {name: float(row[name]) for name in names if row[name]}


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 3])
def test_few_files_give_the_numbers_of_one_process(
    tiny: Any, sines: Path, tmp_path: Path, files: int
) -> None:
    """Before the first step all have the weights of the seed. One file leaves rank 1 without any."""
    settings = {
        "data__validation_files": files,
        "trainer__validate_before_fit": True,
        "trainer__max_steps": 1,
        "trainer__val_interval": 1,
    }
    done = tiny.start(tmp_path / "p" / "two", sines, **settings, **TWO)
    assert done.returncode == 0, done.stderr[-3000:]
    assert tiny.train(tmp_path / "p" / "one", sines, **settings) == 0
    two, one = (first_validation(tmp_path / "p" / name) for name in ("two", "one"))
    assert two.keys() == one.keys()
    assert two == pytest.approx(one, rel=1e-5)


@pytest.mark.slow
def test_a_long_file_on_one_rank_does_not_stop_the_other(tiny: Any, tmp_path: Path) -> None:
    """Twenty times as long as the other rank's; they meet once, at the end."""
    data = tiny.make_store(tmp_path / "data", (("train", 2), ("validation", 1)), seconds=2.0)
    tiny.make_store(data, (("train", 1), ("validation", 1)), seconds=40.0, name="long")
    folder = tmp_path / "p" / "skewed"
    done = tiny.start(
        folder, data, data__presets=["long", "sines"], trainer__max_steps=1, trainer__val_interval=1, **TWO
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert first_validation(folder)


@pytest.mark.slow
def test_a_rank_that_writes_slowly_holds_nobody(tiny: Any, sines: Path, tmp_path: Path) -> None:
    """Case B08: rank 0 writes its two files for a minute, ranks wait 45 seconds for each other."""
    folder = tmp_path / "p" / "slow"
    done = tiny.start(
        folder,
        sines,
        slow_output=(45, 30),
        trainer__max_steps=2,
        trainer__val_interval=2,
        trainer__write_model_output=True,
        **TWO,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list((folder / "outputs").rglob("*.mid"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_on_one_rank_ends_both_with_its_message(
    tiny: Any, sines: Path, tmp_path: Path, rank: int
) -> None:
    # Long before the ranks would give up waiting for each other.
    done = tiny.start(tmp_path / "p" / "failed", sines, limit=900, memory_fails=(rank, 2), **TWO)
    assert done.returncode != 0
    assert f"out of memory in step 2 on rank {rank}" in done.stderr
    assert "-bsz 1 1 -acc 2" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("place", ["step", "validation"])
def test_a_killed_rank_ends_both_and_is_named(tiny: Any, sines: Path, tmp_path: Path, place: str) -> None:
    folder = tmp_path / "p" / "killed"
    steps = {"trainer__max_steps": 4, "trainer__val_interval": 2}
    done = tiny.start(
        folder, sines, limit=900, killed=(1, 3 if place == "step" else 2, place), **steps, **TWO
    )
    assert done.returncode != 0
    assert "rank 0 lost the other ranks, killed from outside: rank 1 (SIGKILL)" in done.stderr
    assert "the run goes on from its last checkpoint" in done.stderr
    last = folder / "checkpoints" / "last.ckpt"
    if place == "step":  # else it died before anything was saved
        assert read_checkpoint(last)["global_step"] == 2
        done = tiny.start(folder, sines, checkpoint=str(last), kind="resume", step=2, **steps, **TWO)
        assert done.returncode == 0, done.stderr[-3000:]
        assert read_checkpoint(last)["global_step"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["disabled", "offline"])
def test_both_ranks_know_the_run_s_folder_without_wandb(
    tiny: Any, sines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Case C07: W&B's own folder exists on rank 0 only."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    logs = tmp_path / "logs"
    done = tiny.start(
        logs / "p" / "x", sines, wandb__mode=mode, wandb__examples=1, trainer__max_steps=2, **TWO
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in (logs / "p").iterdir()] == ["x"]
    assert (logs / "p" / "x" / "checkpoints" / "last.ckpt").is_file()
    assert len(list(logs.glob("wandb/offline-run-*"))) == (mode == "offline")
    assert len(list(logs.glob("wandb/offline-run-*/files/media/**/*.png"))) == (mode == "offline")
