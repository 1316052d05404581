"""``--scale-lr``: the base rate for the global batch of the machines at hand."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from amt.config.training import REFERENCE_BATCH, LRSchedule, OptimizerConfig
from amt.training.learning_rate import scaled_learning_rate


def rate(samples: int, schedule: str = "cosine", **config: Any) -> tuple[float | None, str]:
    return scaled_learning_rate(OptimizerConfig(**config), LRSchedule(name=schedule), samples)


def test_the_reference_is_that_of_the_scripts() -> None:
    """Eight GPUs with the batch of train_mc13.sh."""
    assert REFERENCE_BATCH == 8 * 16
    for scaling in ("linear", "sqrt"):
        assert rate(128, learning_rate=1.5e-4, name="AdamW", scale_lr=scaling)[0] == pytest.approx(1.5e-4)


def test_fewer_and_more_gpus() -> None:
    options = {"learning_rate": 1.6e-4, "name": "AdamW"}
    assert rate(32, **options) == (1.6e-4, "")
    assert rate(32, scale_lr="linear", **options)[0] == pytest.approx(0.4e-4)
    assert rate(32, scale_lr="sqrt", **options)[0] == pytest.approx(0.8e-4)
    assert rate(512, scale_lr="sqrt", **options)[0] == pytest.approx(3.2e-4)
    said = rate(32, scale_lr="linear", **options)[1]
    for part in ("4e-05", "0.00016", "--scale-lr linear", "32 segments", "0.25", "128"):
        assert part in said


def test_the_optimizers_own_rate_is_scaled_too() -> None:
    assert rate(64, name="AdamW", scale_lr="linear")[0] == pytest.approx(0.5e-3)


def test_without_a_base_rate_it_is_refused() -> None:
    with pytest.raises(ValueError, match="finds its own rate"):
        rate(64, name="Adafactor", scale_lr="linear")
    with pytest.raises(ValueError, match="-s legacy has a base rate of its own"):
        rate(64, "legacy", name="AdamW", scale_lr="sqrt")
    assert rate(64, name="Adafactor", learning_rate=1.0, scale_lr="linear")[0] == 0.5
    with pytest.raises(ValueError, match="linear"):
        OptimizerConfig(scale_lr="lineer")


def test_a_run_says_it_and_uses_it(
    tiny: Any, sines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "p" / "scaled"
    changes = {"lr_schedule__name": "constant", "trainer__max_steps": 1, "lr_schedule__warmup_steps": 0}
    assert tiny.train(folder, sines, optimizer__scale_lr="sqrt", bsz__local=2, **changes) == 0
    assert "learning rate: 0.00025 = 0.002 scaled by --scale-lr sqrt" in capsys.readouterr().out
    with open(folder / "metrics.csv", newline="") as file:
        assert float(next(csv.DictReader(file))["lr"]) == pytest.approx(2e-3 / 8)


def test_a_resumed_run_follows_its_new_batch(tiny: Any, sines: Path, tmp_path: Path) -> None:
    """As with another number of GPUs: from the first step on."""
    folder = tmp_path / "p" / "grown"
    options = {
        "lr_schedule__name": "constant",
        "lr_schedule__warmup_steps": 0,
        "optimizer__scale_lr": "linear",
    }
    assert tiny.train(folder, sines, trainer__max_steps=1, **options) == 0
    resumed = {"checkpoint": folder / "checkpoints" / "last.ckpt", "kind": "resume", "step": 1}
    assert tiny.train(folder, sines, trainer__max_steps=2, bsz__local=4, **resumed, **options) == 0
    with open(folder / "metrics.csv", newline="") as file:
        rates = [float(row["lr"]) for row in csv.DictReader(file) if row["lr"]]
    assert rates == pytest.approx([2e-3 * 2 / 128, 2e-3 * 4 / 128])
