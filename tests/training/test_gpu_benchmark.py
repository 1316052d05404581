"""``benchmarks/gpu.sh`` waits for a lent GPU; its logic runs here at tiny sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "AMT_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", str(SCRIPT), *words], env=environ, capture_output=True, text=True, timeout=900, check=False
    )


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run(str(tmp_path / "out"))
    assert done.returncode == 2
    assert "no GPU here; --smoke" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_every_part_runs_and_every_figure_is_there(tmp_path: Path) -> None:
    done = run("--smoke", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert result["smoke"] is True
    assert result["card"]["name"] == "CPU"
    assert set(result["parts"]) == {"memory", "speed", "optimizer", "parity", "data", "compile"}
    for part in result["parts"].values():
        assert set(part) == {"seconds"}, "neither an error nor left out"
    figures = {figure["name"]: figure for figure in result["figures"]}
    for name, target in (
        ("-bsz 2 2 -el 96: peak over estimate", "at most 1.25"),
        ("-bsz 4 4 -el 96: peak over estimate", "at most 1.25"),
        ("step against the eager float32 step", "at least 2.5"),
        ("the larger share", "at least 0.4"),
        ("AdamW is fused", "at least 1"),
        ("bf16 against CPU float32: logits", "at most 0.05"),
        ("data wait, 1 workers", "at most 0.03"),
        ("--compile: compilations after the second label length", "at most 0"),
    ):
        assert figures[name]["target"] == target
        assert figures[name]["value"] is not None
        assert figures[name]["met"] is None, "tiny sizes on a CPU prove no figure"
    assert figures["--compile: compilations after the second label length"]["value"] == 0
    assert 0.8 < figures["-bsz 4 4 -el 96: peak over estimate"]["value"] < 1.25
    table = (tmp_path / "out" / "gpu.md").read_text()
    assert table.startswith("CPU, torch ")
    assert table.count("\n| ") == len(figures) + 1
