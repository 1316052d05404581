"""--dry-run: everything is built, one step is taken, no file appears."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from amt.cli.train import main
from amt.data.shares import Shares, filling_flags


@pytest.fixture
def line(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tiny run as a configuration file, over songs made for it."""
    tiny.make_store(tmp_path / "data", songs=(("train", 2), ("validation", 1)))
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    plain = tiny.experiment(trainer__accumulate_grad_batches=2).to_dict()
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    return ["tiny", "--config", str(tmp_path / "tiny.yaml"), "--dry-run"]


def test_one_step_and_no_file(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_FAULTHANDLER_LOG_DIR", str(tmp_path / "stacks"))
    assert main([*line, "--ema", "0.9", "--tensorboard", "true"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("run: SCRATCH")
    assert "dry run: everything is built, step 1 took" in out
    assert " GiB of memory for the whole process, Python and its libraries included; nothing was" in out
    assert "nothing was written" in out
    assert "data: trains on sines (2 songs, 0.1 min); validates on sines (1 song)\n" in out
    assert "global batch 4 segments = 1 rank x 2 x 2 batches" in out
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "stacks").exists()


def test_on_a_run_that_exists(line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It resumes, goes one step on, and leaves the run as it was."""
    assert main([*line[:-1], "-it", "2", "-vit", "2", "--tensorboard", "true"]) == 0
    folder = tmp_path / "logs" / "ymt3" / "tiny"
    assert list((folder / "tensorboard").glob("events.out.tfevents.*"))

    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = state()
    capsys.readouterr()
    assert main([*line, "-it", "4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("run: RESUME")
    assert "step 3 took" in out
    assert state() == before


def test_it_refuses_what_the_run_would_refuse(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line, "-o", "CPUAdam"]) == 2
    assert "deepspeed" in capsys.readouterr().err


def test_on_a_run_whose_last_validation_is_missing(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no step left to try: it says so and leaves the validation to the run itself."""
    monkeypatch.setenv("AMT_SAVE_BEFORE_VAL", "1")
    assert main([*line[:-1], "-it", "2", "-vit", "2"]) == 0
    checkpoints = tmp_path / "logs" / "ymt3" / "tiny" / "checkpoints"
    before_validation = (checkpoints / "preval-step=2.ckpt").read_bytes()
    for path in checkpoints.iterdir():
        path.unlink()
    (checkpoints / "last.ckpt").write_bytes(before_validation)
    capsys.readouterr()
    assert main([*line, "-it", "2", "-vit", "2"]) == 0
    assert "only the validation of step 2 is left" in capsys.readouterr().out
    assert [path.name for path in checkpoints.iterdir()] == ["last.ckpt"]
    assert main([*line[:-1], "-it", "2", "-vit", "2"]) == 0
    *_, before, end = capsys.readouterr().out.splitlines()
    assert before.startswith("run: stopped at step 2")
    assert end == "run: finished at step 2 of -it 2; to go on give -it more than 2"


def test_a_run_that_is_finished_says_so_last(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    short = [*line[:-1], "-se", "4", "-it", "-1", "-e", "2"]  # an epoch is a step
    assert main(short) == 0
    capsys.readouterr()
    assert main(short) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "run: finished, already at step 2 of -e 2 (2 steps): nothing is trained and no file changed; to go "
        "on give more epochs with -e, or -it more than 2"
    )
    timed = [*line[:-1], "-it", "-1", "--max-minutes", "0.0001"]
    assert main(timed) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; to go on give --max-minutes more than 0.0001")


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_to_learn_is_refused_before_a_file_is_written(
    line: list[str], tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    shutil.rmtree(tmp_path / "data")
    tiny.make_store(tmp_path / "data", songs=(("train", 2), ("validation", 1)), program=0)
    assert main([*line[: None if dry_run else -1], "-it", "1", "-vit", "1"]) == 2
    said = capsys.readouterr()
    (error,) = said.err.splitlines()
    assert error.startswith("error: nothing to learn: mc13_fsingle_vocal transcribes none of the 8 notes")
    assert "(0 Acoustic Grand Piano: 8)" in error
    assert "amt-prepare folder ... --program 100 --overwrite" in error
    assert error.endswith("-tk chooses another task, -d other data")
    assert "step 1" not in said.out
    assert "config.json" not in said.out, "a file that is not there"
    assert not (tmp_path / "logs").exists()


def test_nothing_to_learn_is_refused_on_a_resume(
    line: list[str], tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line[:-1], "-it", "1", "-vit", "1"]) == 0
    shutil.rmtree(tmp_path / "data")
    tiny.make_store(tmp_path / "data", songs=(("train", 2), ("validation", 1)), program=0)
    files = sorted(path for path in (tmp_path / "logs").rglob("*") if path.is_file())
    before = [path.read_bytes() for path in files]
    capsys.readouterr()
    assert main([*line[:-1], "-it", "2"]) == 2
    assert "error: nothing to learn: " in capsys.readouterr().err
    assert [path.read_bytes() for path in files] == before


def test_a_store_without_validation_songs_names_the_seed_that_gives_some(
    line: list[str], tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "data")
    tiny.make_store(tmp_path / "data", songs=(("train", 2), ("validation", 0)), name="sines")
    assert main(line) == 2
    said = capsys.readouterr().err
    flags = filling_flags(["train0", "train1"], Shares())
    assert "no song to validate with; 2 songs cannot fill 3 splits" in said
    assert f"or prepare sines again with {flags}" in said
