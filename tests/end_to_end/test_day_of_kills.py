"""The worked day of docs/runs.md with the real command: killed, moved, damaged, without room, and gone on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amt.model.checkpoint_header import read_header
from amt.quickstart.build import build_quickstart

SOURCES = Path(__file__).resolve().parents[2] / "src"
COMMON = [
    "--recipe",
    "quickstart",
    "-vit",
    "2",
    "-bsz",
    "2",
    "2",
    "--validation-files",
    "1",
    "--threads",
    "1",
]


def run(home: Path, name: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python train.py NAME ...`` in ``src``, as people type it."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("AMT_", "WANDB_", "SLURM_"))
    }
    environment |= {
        "AMT_DATA_HOME": str(home / "data"),
        "AMT_LOG_DIR": str(home / "logs"),
        "AMT_SAVE_EVERY_N_TRAIN_STEPS": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "train.py", name, *COMMON, *words],
        cwd=SOURCES,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


@pytest.mark.slow
def test_a_day_of_kills(tmp_path: Path) -> None:
    home = tmp_path / "my proj é"
    build_quickstart(home / "data" / "quickstart", small=True, progress=False, processes=1)
    project = home / "logs" / "ymt3"
    last = project / "day" / "checkpoints" / "last.ckpt"

    killed = run(home, "day", "-it", "4", AMT_FAULT="kill@2")
    assert killed.returncode == -9, killed.stderr
    assert killed.stdout.startswith("run: SCRATCH at step 0 (no last.ckpt in ")
    asked = run(home, "day", "--print-identity")
    assert asked.stdout == f"run: RESUME at step 2 from {last} (last.ckpt exists)\n"

    resumed = run(home, "day", "-it", "4", AMT_FAULT="kill@2")
    assert resumed.returncode == 0, resumed.stderr
    assert "the validation that was due at step 2 runs first" in resumed.stdout + resumed.stderr
    before = last.read_bytes()

    in_a_save = run(home, "day", "-it", "5", AMT_FAULT="kill@save")
    assert in_a_save.returncode == -9
    assert last.read_bytes() == before
    assert len(list(last.parent.glob(".last.ckpt.*.tmp"))) == 1

    full = run(home, "day", "-it", "5", AMT_FAULT="full-disk@save")
    assert full.returncode == 1
    assert "step 5 was NOT saved" in full.stderr
    assert "removed .last.ckpt." in full.stdout + full.stderr
    assert last.read_bytes() == before

    (project / "day").rename(project / "day2")
    last = project / "day2" / "checkpoints" / "last.ckpt"
    moved = run(home, "day2", "-it", "5")
    assert moved.returncode == 0, moved.stderr
    assert moved.stdout.startswith(
        f"run: RESUME at step 4 from {last} (last.ckpt exists; it was written as day)"
    )
    header = read_header(last)
    assert header is not None
    assert header.step == 5

    last.write_bytes(b"<!DOCTYPE html><title>Sign in</title>")
    damaged = run(home, "day2", "-it", "6")
    assert damaged.returncode == 2
    assert "is a web page (HTML)" in damaged.stderr
    advice = damaged.stderr.split("resume it with ")[1].split("; or start anew")[0]
    assert advice.startswith("day2@")
    advised = run(home, advice, "-it", "6")
    assert advised.returncode == 0, advised.stderr
    assert advised.stdout.startswith("run: RESUME at step 5 from ")

    finished = run(home, "day2", "-it", "6")
    assert finished.returncode == 0
    assert "run: finished, already at step 6 of -it 6" in finished.stdout
