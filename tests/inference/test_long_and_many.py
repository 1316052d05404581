"""Transcription as people run it: hours of sound in little memory, folders that are killed and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from amt.notes import read_midi

BATCH = (sys.executable, "-m", "amt.predict_batch")


@pytest.fixture
def lively_file(log_dir: Path) -> Path:
    """Random weights that write notes when constrained."""
    return log_dir / "ymt3" / "lively" / "checkpoints" / "last.ckpt"


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def write_noise(path: Path, seconds: float, seed: int) -> Path:
    random = np.random.default_rng(seed)
    with soundfile.SoundFile(path, "w", 16000, 1, subtype="PCM_16") as file:
        left = int(seconds * 16000)
        while left > 0:
            file.write(random.uniform(-0.3, 0.3, min(left, 160000)))
            left -= 160000
    return path


def predict_memory(lively_file: Path, song: Path, out: Path) -> float:
    """Most memory (RSS, in bytes) that ``predict.py`` held."""
    code = (
        "import sys, torch; from amt.cli.predict import main; from amt.training.memory import peak_bytes; "
        "status = main(sys.argv[1:]); print(peak_bytes(torch.device('cpu'))); sys.exit(status)"
    )
    command = [
        sys.executable,
        "-c",
        code,
        str(lively_file),
        str(song),
        "-o",
        str(out),
        "--constrain",
        "--batch-size",
        "64",
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_thirty_minutes_in_flat_memory(lively_file: Path, tmp_path: Path) -> None:
    short = predict_memory(lively_file, write_noise(tmp_path / "short.flac", 60, 1), tmp_path / "out")
    long = predict_memory(lively_file, write_noise(tmp_path / "long.flac", 1800, 1), tmp_path / "out")
    assert long < 1.5e9
    assert long < short + 100e6
    assert len(read_midi(tmp_path / "out" / "long.mid")) > 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 short files, five of them broken, in sub-folders."""
    root = tmp_path / "in"
    for number in range(200):
        path = root / f"part {number % 7}" / f"song {number // 2}{'.flac' if number % 2 else '.wav'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 40 == 7:
            path.write_bytes(b"RIFF this is no sound")
        else:
            write_noise(path, 0.5 + number % 5 * 0.4, number)
    return root


def batch(lively_file: Path, folder: Path, out: Path, *options: str) -> list[str]:
    return [
        *BATCH,
        str(lively_file),
        str(folder),
        "-o",
        str(out),
        "--constrain",
        "--batch-size",
        "64",
        *options,
    ]


def files(root: Path) -> dict[str, bytes]:
    hidden = {".amt_batch.jsonl", "report.json", "report.csv"}
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in hidden
    }


def wait_for_outputs(process: subprocess.Popen[Any], out: Path, count: int) -> None:
    for _ in range(6000):
        index = out / ".amt_batch.jsonl"
        if index.exists() and index.read_bytes().count(b"\n") > count:
            return
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    raise AssertionError("nothing happened")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_200_files_five_broken_killed_twice(
    lively_file: Path, folder: Path, tmp_path: Path, processes: int
) -> None:
    out = tmp_path / "out"
    command = batch(lively_file, folder, out, "--processes", str(processes))
    kept: dict[str, bytes] = {}
    for stop, count in ((signal.SIGKILL, 30), (signal.SIGINT, 90)):
        process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_outputs(process, out, count)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(stop)
        status = process.wait(timeout=120)
        assert status == (-9 if stop == signal.SIGKILL else 130)
        for _ in range(500):
            if not any(Path(f"/proc/{child}").exists() for child in children):
                break
            time.sleep(0.02)
        else:
            raise AssertionError("processes live on after their parent")
        # A killed process may leave the hidden file that it was writing; the next one removes it.
        found = {name: data for name, data in files(out).items() if name.endswith(".mid")}
        written = {name: data for name, data in found.items() if not Path(name).name.startswith(".")}
        assert len(written) >= count
        for name in written:
            read_midi(out / name)
        assert kept.items() <= written.items()
        kept = written
    told = json.loads((out / "report.json").read_text())
    assert told["counts"]["waiting"] > 0, "an interrupted run reports as well"

    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("not transcribed") == 5
    assert "195 of 200 files transcribed, 5 could not be" in done.stdout
    told = json.loads((out / "report.json").read_text())
    counts = told["counts"]
    assert counts["earlier"] >= 90
    assert (counts["earlier"] + counts["transcribed"], counts["failed"], counts["waiting"]) == (195, 5, 0)
    whole = files(out)
    assert len(whole) == 195
    assert kept.items() <= whole.items()

    unbroken = tmp_path / "unbroken"
    subprocess.run(batch(lively_file, folder, unbroken), env=environment(), capture_output=True, timeout=900)
    assert files(unbroken) == whole
