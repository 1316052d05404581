"""The benchmark of the objective runs: every arm is an experiment, and a short run of it gives a table."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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


@pytest.mark.filterwarnings("error")
def test_a_score_that_no_song_has_is_a_dash(objective: Any, capsys: pytest.CaptureFixture[str]) -> None:
    nan = float("nan")
    row = objective.difference_row([[nan, nan]], [[nan, nan]])
    assert np.isnan([row["mean"], row["difference"], *row["of_seeds"]]).all()
    objective.show("a table", {"an arm": {"onset_f": row}})
    assert capsys.readouterr().out.split("onset_f")[1].split() == ["-", "difference", "-", "seeds", "-"]
    assert objective.plain({"rows": [row]})["rows"][0]["mean"] is None
    row = objective.difference_row([[0.5, nan], [0.7, nan]], [[0.4, 0.2], [nan, 0.2]])
    assert row["mean"] == pytest.approx(0.6)
    assert row["difference"] == pytest.approx(0.2), "of the songs that both have a score of"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.3, "1 s"), (42.4, "42 s"), (59.7, "1 minute"), (70, "1 minute"), (7200, "120 minutes")],
)
def test_a_short_wait_is_said_in_seconds(objective: Any, seconds: float, text: str) -> None:
    assert objective.time_text(seconds) == text


def test_an_unknown_arm_is_refused(
    objective: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["objective.py", "--parts", "b", "--arms", "and octave"])
    with pytest.raises(SystemExit):
        objective.main()
    said = capsys.readouterr().err
    assert '--arms "and octave": no row of these parts' in said
    assert '"cross-entropy", "and boundary 1, width 2", ' in said


def test_windows_without_a_note_and_numbers_of_notes(objective: Any) -> None:
    counts = importlib.import_module("objective_runs").counts
    assert counts([0.1, 0.5, 3.0], [0.2]) == pytest.approx({"silent_windows": 0.5, "count_error": 2 / 3})
    assert counts([0.1, 3.0], [0.2, 3.1]) == {"silent_windows": 0.0, "count_error": 0.0}
    assert counts([0.1], [0.1, 9.0])["count_error"] == 1.0, "too many count as much as too few"
    assert np.isnan(counts([], [1.0])["silent_windows"])


def test_labels_that_lack_notes_are_those_of_the_training(objective: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "view" / "quickstart"
    (source / "index").mkdir(parents=True)
    (source / "store.json").write_text("{}")
    entry = np.zeros(1, [("song_id", "U16"), ("num_notes", "<i4"), ("octave_unknown", "?")])
    notes = np.zeros(1000, [("onset", "<f8"), ("offset", "<f8"), ("pitch", "u1")])
    notes["onset"] = np.arange(1000)
    notes["offset"] = notes["onset"] + 0.5
    for split in ("train", "validation"):
        entry["song_id"], entry["num_notes"] = split, len(notes)
        np.save(source / "index" / f"{split}.npy", entry)
        (source / "songs" / split).mkdir(parents=True)
        np.save(source / "songs" / split / "notes.npy", notes)
        (source / "songs" / split / "mix.flac").write_bytes(b"sound")
    objective_runs = importlib.import_module("objective_runs")
    objective_runs.make_view(source, target, objective.Run("x", 0, 0, missing=0.4))
    left = np.load(target / "songs" / "train" / "notes.npy")
    assert len(left) == pytest.approx(600, abs=60)
    assert set(left["onset"]) < set(notes["onset"])
    assert np.load(target / "index" / "train.npy")["num_notes"] == len(left)
    assert (target / "songs" / "train" / "mix.flac").read_bytes() == b"sound"
    assert np.array_equal(np.load(target / "songs" / "validation" / "notes.npy"), notes)


@pytest.mark.slow
def test_a_short_run_gives_a_table(tmp_path: Path) -> None:
    build_quickstart(tmp_path / "data" / "quickstart", small=True, progress=False, processes=1)
    out = tmp_path / "table.json"
    line = [sys.executable, str(BENCHMARKS / "objective.py"), "--parts", "a", "cost", "--steps", "2"]
    line += ["--tables", "1"]
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
