"""Logging: the CSV file over restarts, and W&B that never stops a run."""

from __future__ import annotations

import csv
import math
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from amt.config import WandbConfig
from amt.training import logger as logger_module
from amt.training.file_loggers import CsvLogger
from amt.training.logger import build_loggers, has_wandb_credentials, wandb_run_id
from amt.training.run_folder import RunFolder

KEY = "a" * 40


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without any trace of W&B."""
    empty = tmp_path / "home"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_TAGS", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(empty))
    return {"HOME": str(empty)}


def test_csv_widens_and_is_on_the_disk_at_once(tmp_path: Path) -> None:
    log = CsvLogger(tmp_path, "p", "exp", resumed=False)
    log.log_metrics({"train_loss": 2.5, "epoch": 0}, 1)
    log.log_metrics({"validation/macro_onset_f": math.nan, "note": "text"}, 2)  # type: ignore[dict-item]
    log.log_metrics({"train_loss": 1.0}, 3)
    assert rows(tmp_path) == [
        {"step": "1", "epoch": "0", "train_loss": "2.5", "validation/macro_onset_f": ""},
        {"step": "2", "epoch": "", "train_loss": "", "validation/macro_onset_f": "nan"},
        {"step": "3", "epoch": "", "train_loss": "1", "validation/macro_onset_f": ""},
    ]
    assert (log.name, log.version, log.save_dir) == ("p", "exp", str(tmp_path))


def test_csv_goes_on_after_a_resume_without_the_lost_steps(tmp_path: Path) -> None:
    first = CsvLogger(tmp_path, "p", "exp", resumed=False)
    for step in (1, 2, 3, 4):
        first.log_metrics({"loss": step / 2}, step)
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("5,")  # killed while writing
    second = CsvLogger(tmp_path, "p", "exp", resumed=True, resume_step=2)
    second.log_metrics({"loss": 9.0, "new": 1.0}, 3)
    assert [(row["step"], row["loss"], row["new"]) for row in rows(tmp_path)] == [
        ("1", "0.5", ""),
        ("2", "1", ""),
        ("3", "9", "1"),
    ]


def test_csv_of_another_run_is_kept(tmp_path: Path) -> None:
    for number in range(3):
        CsvLogger(tmp_path, "p", "exp", resumed=False).log_metrics({"x": float(number)}, 1)
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == [
        "metrics-1.csv",
        "metrics-2.csv",
        "metrics.csv",
    ]
    assert rows(tmp_path)[0]["x"] == "2"


def test_csv_that_cannot_be_written_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = CsvLogger(tmp_path / "gone", "p", "exp", resumed=False)
    log.log_metrics({"x": 1.0}, 1)
    log.log_metrics({"x": 1.0}, 2)
    assert capsys.readouterr().out.count("cannot be written") == 1


def test_credentials_are_found_where_people_keep_them(home: dict[str, str], tmp_path: Path) -> None:
    assert not has_wandb_credentials(home)
    empty = {"WANDB_API_KEY": "", "WANDB_BASE_URL": "", "WANDB_MODE": "", "WANDB_TAGS": ""}
    assert not has_wandb_credentials(home | empty)
    assert has_wandb_credentials(home | {"WANDB_API_KEY": KEY})
    netrc = Path(home["HOME"]) / ".netrc"
    netrc.write_text(f"machine wandb.my.lab:8080\n  login user\n  password {KEY}\n")
    assert not has_wandb_credentials(home)
    assert has_wandb_credentials(home | {"WANDB_BASE_URL": "http://wandb.my.lab:8080"})
    netrc.write_text(f"machine api.wandb.ai login user password {KEY}\n")
    assert has_wandb_credentials(home)
    netrc.write_text(f"machine api.forge.coreweave.com login user password {KEY}\n")
    assert has_wandb_credentials(home), "where `wandb login` of newer versions keeps it"
    netrc.write_text(f"machine github.com login a password {KEY}\n")
    assert not has_wandb_credentials(home), "other hosts do not count"
    netrc.write_text("this is { no netrc")
    assert not has_wandb_credentials(home)
    settings = Path(home["HOME"]) / ".config" / "wandb" / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[default]\napi_key = {KEY}\n")
    assert has_wandb_credentials(home)
    settings.write_text("[default]\nbase_url = https://wandb.my.lab:8080/api/wandb\n")
    assert not has_wandb_credentials(home)
    netrc.write_text(f"machine wandb.my.lab:8080 login user password {KEY}\n")
    assert has_wandb_credentials(home), "the server of W&B's settings"
    assert not has_wandb_credentials(home | {"WANDB_BASE_URL": "https://other.lab"}), (
        "the environment's holds"
    )
    other = tmp_path / "elsewhere"
    other.write_text(f"machine api.wandb.ai login user password {KEY}\n")
    settings.unlink()
    assert has_wandb_credentials(home | {"NETRC": str(other)})


def test_no_credentials_is_one_notice_and_csv(
    home: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs" / "p" / "exp"
    loggers = build_loggers(WandbConfig(), "p", "exp", folder, "scratch", home | {"WANDB_API_KEY": ""})
    assert [type(item) for item in loggers] == [CsvLogger]
    assert capsys.readouterr().out.count("W&B is not used") == 1
    assert build_loggers(WandbConfig(mode="disabled"), "p", "exp", folder, "scratch", home)
    assert capsys.readouterr().out == ""


def test_a_silent_server_and_a_broken_wandb_do_not_stop_the_run(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs" / "p" / "exp"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    environ = home | {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": f"http://127.0.0.1:{port}"}
    assert len(build_loggers(WandbConfig(), "p", "exp", folder, "scratch", environ)) == 1
    assert "does not answer" in capsys.readouterr().out

    def refuse(*args: Any) -> None:
        raise ImportError("no module named wandb")

    monkeypatch.setattr(logger_module, "_start_wandb", refuse)
    assert len(build_loggers(WandbConfig(mode="offline"), "p", "exp", folder, "scratch", home)) == 1
    assert "no module named wandb" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["wandb.my.lab", "https://", "http://[broken"])
def test_a_server_without_an_address_is_said(
    url: str, home: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs" / "p" / "exp"
    environ = home | {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": url}
    assert len(build_loggers(WandbConfig(), "p", "exp", folder, "scratch", environ)) == 1
    said = capsys.readouterr().out
    assert said.count("W&B is not used") == 1
    assert url in said


def test_the_server_of_wandbs_settings_is_the_one_that_is_asked(
    home: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind a firewall the public server does not answer, the private one does."""
    settings = Path(home["HOME"]) / ".config" / "wandb" / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text("[default]\nbase_url = http://no-such-host.invalid:1\n")
    folder = tmp_path / "logs" / "p" / "exp"
    build_loggers(WandbConfig(), "p", "exp", folder, "scratch", home | {"WANDB_API_KEY": KEY})
    assert "http://no-such-host.invalid:1 does not answer" in capsys.readouterr().out


def test_run_id_lasts_over_restarts_and_is_new_for_a_new_run(tmp_path: Path) -> None:
    first = wandb_run_id(tmp_path, resumed=False)
    assert [wandb_run_id(tmp_path, resumed=True) for _ in range(3)] == [first] * 3
    path = RunFolder(tmp_path).wandb_id
    path.write_text(f"  {first}\n\n")
    assert wandb_run_id(tmp_path, resumed=True) == first
    assert wandb_run_id(tmp_path, resumed=False) != first
    for bad in ("", "\n", "two words", "a/b"):
        path.write_text(bad)
        assert wandb_run_id(tmp_path, resumed=True) == path.read_text().strip() != ""


def test_offline_needs_no_credentials_and_writes_to_the_log_folder(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "")
    monkeypatch.setenv("WANDB_TAGS", "")
    folder = tmp_path / "logs" / "p" / "exp"
    loggers = build_loggers(WandbConfig(mode="offline"), "p", "exp", folder, "scratch", home)
    assert len(loggers) == 2
    try:
        for item in loggers:
            item.log_metrics({"loss": 1.0}, 1)
        assert loggers[1].version == RunFolder(folder).wandb_id.read_text().strip()
        assert list((tmp_path / "logs" / "wandb").glob("offline-run-*"))
    finally:
        import wandb

        wandb.finish()
    for item in loggers:
        item.log_metrics({"loss": 2.0}, 2)  # W&B's run is over: no error reaches training
        item.finalize("success")
    assert [row["loss"] for row in rows(folder)] == ["1", "2"]


@pytest.mark.parametrize("server", ["", "http://no-such-host.invalid"], ids=["no key", "no such host"])
def test_a_batch_job_without_wandb_trains_to_the_end(
    home: dict[str, str],
    server: str,
    tiny: Any,
    sines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Case C01: an empty home, no terminal; with a key a name that does not resolve."""
    monkeypatch.setenv("WANDB_API_KEY", KEY if server else "")
    monkeypatch.setenv("WANDB_BASE_URL", server)
    closed = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    closed.close()
    monkeypatch.setattr("sys.stdin", closed)
    began = time.monotonic()
    folder = tmp_path / "logs" / "p" / "job"
    assert tiny.train(folder, sines, wandb__mode="online", trainer__max_steps=2) == 0
    assert time.monotonic() - began < 60
    assert capsys.readouterr().out.count("W&B is not used") == 1
    assert [row["step"] for row in rows(folder) if row["train_loss"]] == ["1", "2"]
    assert not (tmp_path / "logs" / "wandb").exists()
