"""The command behind ``make quickstart``."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
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
    line = parse(quickstart.train_line(2.5, 3, cores=2), OPTIONS)
    resolved = resolve(line.words[0], line, read_environment({}))
    assert resolved.experiment.exp_id == "quickstart-2.5min-seed3"
    assert resolved.experiment.trainer.max_minutes == 2.5
    assert resolved.experiment.seed == 3
    assert resolved.experiment.data.presets == RECIPES["quickstart"]["data.presets"]
    shared = {"trainer.strategy", "trainer.devices", "trainer.num_threads", "bsz.sub", "bsz.local"}
    assert set(resolved.flags) - shared == {"seed", "trainer.max_minutes"}


@pytest.mark.parametrize(("cores", "threads"), [(2, 1), (5, 2)])
def test_two_processes_share_the_cores_and_the_batch(cores: int, threads: int) -> None:
    resolved = resolve("x", parse(["x", *quickstart.share_cores(cores)], OPTIONS), read_environment({}))
    trainer, sizes = resolved.experiment.trainer, resolved.experiment.bsz
    assert (trainer.strategy, trainer.devices, trainer.num_threads) == ("ddp", "2", threads)
    assert 2 * sizes.local == 2 * sizes.sub == RECIPES["quickstart"]["bsz.local"]


def test_one_core_is_not_shared() -> None:
    assert quickstart.share_cores(1) == []


def test_bfloat16_only_where_it_is_fast() -> None:
    assert "-pr" not in quickstart.train_line(1.0, 0, cores=2)
    line = parse(quickstart.train_line(1.0, 0, fast_bf16=True), OPTIONS)
    assert resolve("x", line, read_environment({})).experiment.trainer.precision == "bf16-mixed"


def test_training_runs_in_a_process_of_its_own() -> None:
    assert quickstart.run_training(["--help"]) == 0
    assert quickstart.run_training(["x", "--no-such-flag"]) == 2


def test_a_signal_to_the_command_reaches_the_training(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntrap 'exit 7' TERM\ntouch '{tmp_path}/ready'\nsleep 30 &\nwait\n")
    program.chmod(0o755)
    code = (
        f"import sys; sys.executable = {str(program)!r}\n"
        "from amt.cli.quickstart import run_training\nsys.exit(run_training([]))"
    )
    command = subprocess.Popen([sys.executable, "-c", code])
    while not (tmp_path / "ready").exists():
        assert command.poll() is None
        time.sleep(0.05)
    command.send_signal(signal.SIGTERM)
    assert command.wait(20) == 7


def test_it_hands_over_folders_and_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    lines: list[Any] = []
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setattr(quickstart, "run_training", lambda line: lines.append(line) or 0)

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
    assert [line[:7] for line in lines] == [quickstart.train_line(2.0, 1)]
    assert [line[-3:] for line in lines] == [["-bsz", "4", "8"]]


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
