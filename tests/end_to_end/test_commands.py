"""The real commands, in processes of their own, on small quick-start songs."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amt.data.store import SongStore
from amt.inference import write_wav
from amt.notes import array_to_notes, read_midi, write_midi
from amt.quickstart.build import build_quickstart

SOURCES = Path(__file__).resolve().parents[2] / "src"
TRAIN = ["train.py", "first run", "--recipe", "quickstart", "--seed", "1", "-vit", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with spaces and letters beyond ASCII, the small songs in ``data``."""
    folder = tmp_path_factory.mktemp("my proj é")
    build_quickstart(folder / "data" / "quickstart", small=True, progress=False, processes=1)
    return folder


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """``python <command>`` in ``src``, as people type it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AMT_", "WANDB_"))}
    environment |= {
        "AMT_DATA_HOME": str(home / "data"),
        "AMT_LOG_DIR": str(home / "logs"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *command], cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=900
    )


def test_train_resume_predict(home: Path, tmp_path: Path) -> None:
    first = run(home, *TRAIN, "-it", "2")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("run: SCRATCH")
    checkpoints = home / "logs" / "ymt3" / "first run" / "checkpoints"
    last = checkpoints / "last.ckpt"
    before = last.read_bytes()

    again = run(home, *TRAIN, "-it", "2")
    assert again.returncode == 0, again.stderr
    assert "-it" in again.stdout + again.stderr
    assert last.read_bytes() == before, "a finished run changes nothing"
    assert run(home, *TRAIN, "-it", "1").returncode == 2

    resumed = run(home, *TRAIN, "-it", "3")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith("run: RESUME")
    with (last.parents[1] / "metrics.csv").open(newline="", encoding="utf-8") as file:
        steps = {int(row["step"]) for row in csv.DictReader(file) if row["validation/macro_onset_f"]}
    assert steps == {1, 2, 3}

    refused = run(home, *TRAIN, "-it", "4", "-nl", "8")
    assert refused.returncode == 2
    assert "-nl" in refused.stderr

    store = SongStore.open(home / "data" / "quickstart")
    song = store.song("test_standard", 0)
    write_wav(tmp_path / "a song.wav", song.mix(), song.sample_rate)
    write_midi(array_to_notes(song.notes), tmp_path / "a song.mid")
    out = tmp_path / "out"
    line = ["first run@last.ckpt", str(tmp_path / "a song.wav"), "-o", str(out), "--format", "midi", "png"]
    predicted = run(home, "predict.py", *line)
    assert predicted.returncode == 0, predicted.stderr
    read_midi(out / "a song.mid")
    assert (out / "a song.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_recipe_learns(tmp_path: Path) -> None:
    """A thousand steps of the quick-start recipe hear melodies they never saw."""
    build_quickstart(tmp_path / "data" / "quickstart", minutes=20, progress=False)
    trained = run(tmp_path, *TRAIN[:1], "learner", *TRAIN[2:6], "-it", "1000", "-vit", "1000")
    assert trained.returncode == 0, trained.stderr
    from amt.inference import load_transcriber
    from amt.quickstart.scoring import score_split

    last = tmp_path / "logs" / "ymt3" / "learner" / "checkpoints" / "last.ckpt"
    score = score_split(
        load_transcriber(last, device="cpu"),
        SongStore.open(tmp_path / "data" / "quickstart"),
        "test_standard",
    )
    assert score.onset_f > 0.4, "it reached 0.53; an untrained model has 0.00, notes at random 0.02"
