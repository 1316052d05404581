"""``--scale-lr``: the base rate for the global batch of the machines at hand; rates that a resume changes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from amt.config.training import REFERENCE_BATCH, LRSchedule, OptimizerConfig
from amt.training.learning_rate import explain_new_rate, saved_rate, scaled_learning_rate
from amt.training.plan import plan_run


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


def explained(tiny: Any, before: float, now: float, end_step: int | None = 6, **changes: Any) -> str:
    """What is said when the tiny run (6 steps, a cosine) is resumed with ``changes``."""
    state = {"amt_state": {"end_step": end_step}, "experiment": tiny.experiment().to_json()}
    experiment = tiny.experiment(**changes)
    return explain_new_rate(state, experiment, plan_run(experiment), before, now)


def test_a_rate_that_goes_on_is_not_mentioned(tiny: Any) -> None:
    assert explained(tiny, 1e-3, 1e-3, trainer__max_steps=600) == ""
    assert explained(tiny, 1e-3, 1.04e-3, trainer__max_steps=600) == ""
    assert explained(tiny, 0.0, 0.0, trainer__max_steps=600) == ""
    assert explained(tiny, 1e-3, 2e-3) == "", "nothing was asked for"


@pytest.mark.parametrize("before", [1e-3, 0.0])
def test_a_rate_that_jumps_is_explained(tiny: Any, before: float) -> None:
    head = f"learning rate: it goes on at 0.0011, it was {before:g} when the run was saved: "
    hold = "; --override-optim -s constant -lr RATE would hold a rate"

    def said(**changes: Any) -> str:
        text = explained(tiny, before, 1.1e-3, **changes)
        assert text.startswith(head)
        return text.removeprefix(head)

    assert said(trainer__max_steps=1200) == f"the schedule now lasts 1,200 steps, not 6 steps (-it){hold}"
    assert (
        said(end_step=None, trainer__max_steps=9)
        == f"the schedule now lasts 9 steps, not 6 steps (-it){hold}"
    )
    both = said(trainer__max_steps=-1, trainer__max_minutes=1.0)
    assert both == f"the schedule now lasts 1 minute, not 6 steps (-it and --max-minutes){hold}"
    asked = "optimizer and schedule are those of --override-optim"
    assert said(optimizer__learning_rate=3e-3) == asked
    assert said(lr_schedule__name="constant") == asked
    assert said(lr_schedule__name="constant", trainer__max_steps=-1) == (
        f"{asked}, and the schedule now lasts without end, not 6 steps (-it){hold}"
    )


def test_the_rate_follows_the_global_batch_of_the_new_start(tiny: Any) -> None:
    experiment = tiny.experiment(optimizer__scale_lr="sqrt")
    state = {"amt_state": {"end_step": 6}, "experiment": experiment.to_json()}
    said = explain_new_rate(state, experiment, plan_run(experiment, world_size=4), 1e-3, 2e-3)
    assert said.endswith("when the run was saved: --scale-lr sqrt goes by the global batch, now 8 segments")


def test_the_saved_rate_is_that_of_the_top_layer() -> None:
    def state(**group: float) -> dict[str, Any]:
        return {"optimizer_states": [{"param_groups": [group]}]}

    assert saved_rate(state(lr=1e-3)) == 1e-3, "files of format 1 have no factors"
    assert saved_rate(state(lr=4e-4, lr_scale=0.4)) == pytest.approx(1e-3)
