"""The benchmark of the objective runs: every arm is an experiment, and a short run of it gives a table."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amt.quickstart.build import build_quickstart

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def objective(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("objective")


def test_every_arm_is_an_experiment_of_its_own(objective: Any) -> None:
    for parts in (*objective.PARTS.values(), [objective.FULL_SIZE]):
        for part in parts:
            runs = [objective.Run("arm", 0, 10, changes, **part.settings) for changes in part.arms.values()]
            built = [objective.experiment_of(run) for run in runs]
            assert len({experiment.to_json() for experiment in built}) == len(built)


def test_differences_are_paired_by_song(objective: Any) -> None:
    base = [[0.1, 0.5, 0.9], [0.3, 0.5, 0.7]]
    row = objective.difference_row([[value + 0.2 for value in seed] for seed in base], base)
    assert row["mean"] == pytest.approx(0.7)
    assert [row["difference"], *row["interval"], *row["of_seeds"]] == pytest.approx([0.2] * 5)


@pytest.mark.slow
def test_a_short_run_gives_a_table(tmp_path: Path) -> None:
    build_quickstart(tmp_path / "data" / "quickstart", small=True, progress=False, processes=1)
    out = tmp_path / "table.json"
    line = [sys.executable, str(BENCHMARKS / "objective.py"), "--parts", "a", "cost", "--steps", "2"]
    line += ["--seeds", "0", "--songs", "1", "--hard", "--out", str(out)]
    environment = {**os.environ, "AMT_DATA_HOME": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    [(title, rows)] = result["a"].items()
    assert title in done.stdout
    assert "both, octaves hidden" in rows
    for measures in rows.values():
        assert set(measures) == {"onset_f", "chroma_f", "onset_f_hard"}
        assert all(0 <= row["mean"] <= 1 for row in measures.values())
    assert result["cost"]["step"] > 0


@pytest.mark.slow
def test_the_published_size_trains_and_is_scored(tmp_path: Path) -> None:
    build_quickstart(tmp_path / "data" / "quickstart", small=True, progress=False, processes=1)
    out = tmp_path / "table.json"
    line = [sys.executable, str(BENCHMARKS / "objective.py"), "--full-size", "--steps", "2", "--batch", "1"]
    line += ["--seeds", "0", "--songs", "1", "--jobs", "1", "--arms", "none, as published", "all"]
    environment = {**os.environ, "AMT_DATA_HOME": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*line, "--out", str(out)], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    [rows] = json.loads(out.read_text(encoding="utf-8"))["d"].values()
    assert set(rows) == {"none, as published", "all"}
    wrong = subprocess.run([*line[:-2], "x"], env=environment, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no row of these parts" in wrong.stderr
