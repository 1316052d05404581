"""W&B against a stand-in server: runs are taken and go on, and no answer of a server ends or holds a run."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amt.training import logger as logger_module

PROGRAM = Path(__file__).with_name("wandb_server.py")
LIMIT = 900.0
"""Seconds; W&B keeps processes of its own that end after the run, late on a busy machine."""


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("amt_tests_wandb_server", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WandbServer


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    stand_in = _load()(getattr(request, "param", 200))
    yield stand_in
    if not stand_in._closing.is_set():
        stand_in.close()


@pytest.fixture
def start(tmp_path: Path) -> Any:
    """Starts a run in a process of its own, as W&B keeps processes and settings beside it."""

    def call(url: str, kind: str) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        (tmp_path / "home").mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), url, str(tmp_path / "logs" / "p" / "exp"), kind],
            env={**environ, "HOME": str(tmp_path / "home"), "WANDB_FINISH_TIMEOUT": "5"},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return call


def rows(tmp_path: Path) -> list[str]:
    with open(tmp_path / "logs" / "p" / "exp" / "metrics.csv", newline="", encoding="utf-8") as file:
        return [row["step"] for row in csv.DictReader(file)]


@pytest.mark.slow
def test_a_run_is_taken_and_a_resumed_one_goes_on_in_it(server: Any, start: Any, tmp_path: Path) -> None:
    for kind in ("scratch", "resume"):
        with start(server.url, kind) as process:
            said, _ = process.communicate("\n", timeout=LIMIT)
            assert process.returncode == 0, said
            assert "loggers CsvLogger SteadyWandbLogger" in said
    kept = (tmp_path / "logs" / "p" / "exp" / "wandb_id.txt").read_text().strip()
    assert set(server.runs) == {kept}
    assert [row["trainer/global_step"] for row in server.rows if "loss" in row] == [1, 2, 11, 12]
    assert rows(tmp_path) == ["1", "2", "11", "12"]


@pytest.mark.slow
@pytest.mark.parametrize("server", [401, 500, 0], indirect=True, ids=["refuses", "is broken", "is silent"])
def test_a_server_that_does_not_take_the_run(server: Any, start: Any, tmp_path: Path) -> None:
    with start(server.url, "scratch") as process:
        said, _ = process.communicate("\n", timeout=LIMIT)
    assert process.returncode == 0, said
    assert said.count("logging: W&B is not used (") == 1
    assert "loggers CsvLogger\n" in said
    assert rows(tmp_path) == ["1", "2"]


@pytest.mark.slow
def test_a_server_that_goes_during_the_run_holds_nobody(server: Any, start: Any, tmp_path: Path) -> None:
    with start(server.url, "scratch") as process:
        for line in process.stdout:
            if line.startswith("loggers"):
                break
        assert "SteadyWandbLogger" in line
        server.close()
        said, _ = process.communicate("\n", timeout=LIMIT)
    assert process.returncode == 0, said
    assert "ended" in said
    assert rows(tmp_path) == ["1", "2"]


def test_a_run_does_not_wait_for_ever_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What W&B is told of its own accord; the test above gives another number in the environment."""
    import wandb

    told: list[Any] = []

    class Told(logger_module.SteadyWandbLogger):
        def __init__(self, **options: Any) -> None:
            told.append(options["settings"])
            super().__init__(**options)

        @property
        def experiment(self) -> Any:
            return None

    monkeypatch.setattr(logger_module, "SteadyWandbLogger", Told)
    monkeypatch.delenv("WANDB_FINISH_TIMEOUT", raising=False)
    if "finish_timeout" not in wandb.Settings.model_fields:
        pytest.skip("this version of W&B knows no limit")
    folder = tmp_path / "p" / "exp"
    folder.mkdir(parents=True)
    logger_module._start_wandb(logger_module.WandbConfig(), "p", "exp", folder, False)
    assert told[0].finish_timeout == logger_module._FINISH_SECONDS
    monkeypatch.setenv("WANDB_FINISH_TIMEOUT", "7")
    logger_module._start_wandb(logger_module.WandbConfig(), "p", "exp", folder, False)
    assert "finish_timeout" not in told[1].model_fields_set, "W&B reads the environment itself"
