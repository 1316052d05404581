"""The command behind ``make quickstart``."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amt.cli import quickstart
from amt.cli.assemble import resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import read_environment
from amt.config.recipes import RECIPES

ROOT = Path(__file__).parents[2]


def test_its_training_is_the_recipe_with_a_budget() -> None:
    line = parse(quickstart.train_line(2.5, 3), OPTIONS)
    resolved = resolve(line.words[0], line, read_environment({}))
    assert resolved.experiment.exp_id == "quickstart-2.5min-seed3"
    assert resolved.experiment.trainer.max_minutes == 2.5
    assert resolved.experiment.seed == 3
    assert resolved.experiment.data.presets == RECIPES["quickstart"]["data.presets"]
    assert set(resolved.flags) == {"seed", "trainer.max_minutes"}


def test_it_hands_over_folders_and_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    lines: list[Any] = []
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setattr("amt.cli.train.main", lambda line: lines.append(line) or 0)

    def run_quickstart(paths: Any, train: Any, **settings: Any) -> int:
        seen.append((dataclasses.asdict(paths), settings))
        return int(train())

    monkeypatch.setattr("amt.quickstart.run.run_quickstart", run_quickstart)
    argv = ["--minutes", "2", "--seed", "1", "--out", str(tmp_path / "out"), "--", "-bsz", "4", "8"]
    assert quickstart.main(argv) == 0
    paths = {
        "data_home": tmp_path / "data",
        "run_folder": tmp_path / "logs" / "ymt3" / "quickstart-2min-seed1",
        "out": tmp_path / "out",
    }
    assert seen == [(paths, {"minutes": 2.0, "seed": 1})]
    assert lines == [quickstart.train_line(2.0, 1, ["-bsz", "4", "8"])]


@pytest.mark.parametrize("argv", [["--minutes", "0"], ["--minute", "3"], ["--seed", "x"]])
def test_mistakes(argv: list[str]) -> None:
    assert quickstart.main(argv) == 2


def test_make_passes_the_minutes() -> None:
    done = subprocess.run(
        ["make", "-n", "quickstart", "QUICKSTART_MINUTES=3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '-m amt.cli.quickstart --minutes "3"' in done.stdout
