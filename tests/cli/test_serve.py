"""``serve.py`` as a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amt.cli import serve
from amt.inference import DecodingChoices
from amt.serving.limits import Limits


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the command asks for, without a model or a server."""
    seen: dict[str, Any] = {}

    class Server:
        url = "http://127.0.0.1:1/"

        def __init__(self, host: str, port: int, limits: Limits, names: Any) -> None:
            assert "load" not in seen, "a port that is taken is told before a model is loaded"
            seen["server"] = (host, port, limits, list(names))

    def find(spec: str, **settings: Any) -> Path:
        seen["find"] = (spec, settings)
        return Path("found.ckpt")

    def serve_once(server: Server, load: Callable[[], Any], ready: Callable[[], None]) -> int:
        assert load() == "the transcriber"
        ready()
        return 0

    def load(spec: Path, choices: DecodingChoices, **settings: Any) -> str:
        seen["load"] = (spec, choices, settings)
        return "the transcriber"

    monkeypatch.setattr("amt.inference.find_checkpoint", find, raising=False)
    monkeypatch.setattr("amt.inference.load_transcriber", load, raising=False)
    monkeypatch.setattr("amt.inference.predict.describe", lambda transcriber: f"this is {transcriber}")
    monkeypatch.setattr("amt.serving.server.Server", Server)
    monkeypatch.setattr("amt.serving.server.serve", serve_once)
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    return seen


def test_it_passes_on_what_was_said(
    calls: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["exp@last.ckpt", "--host", "::1", "--port", "0", "--name", "a.example", "b.example"]
    line += ["--max-mb", "5", "--max-minutes", "1.5", "--max-waiting", "2", "--max-work-minutes", "3"]
    line += ["--keep", "4", "--device", "cpu", "-p", "proj", "--overlap", "0.25", "--instruments", "Bass"]
    assert serve.main(line) == 0
    assert calls["find"] == ("exp@last.ckpt", {"log_dir": tmp_path, "project": "proj"})
    choices = DecodingChoices(overlap=0.25, instruments=("Bass",))
    assert calls["load"] == (Path("found.ckpt"), choices, {"device": "cpu"})
    limits = Limits(max_mb=5, max_minutes=1.5, max_waiting=2, max_work_minutes=3.0, keep=4)
    assert calls["server"] == ("::1", 0, limits, ["a.example", "b.example"])
    out, err = capsys.readouterr()
    assert out == (
        "listening at http://127.0.0.1:1/ and loading found.ckpt\n"
        "this is the transcriber\n"
        "open http://127.0.0.1:1/ in a browser; Ctrl-C ends it\n"
    )
    assert err == ""


def test_what_it_does_when_nothing_is_said(calls: dict[str, Any]) -> None:
    assert serve.main(["exp"]) == 0
    assert calls["server"] == ("127.0.0.1", 8000, Limits(), [])


def test_other_machines_are_let_in_on_purpose_only(
    calls: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.2", "box.example"):
        assert serve.main(["exp", "--host", host]) == 2
        assert "--public" in capsys.readouterr().err
        assert not calls
        assert serve.main(["exp", "--host", host, "--public"]) == 0
        assert "asks for no password" in capsys.readouterr().err
        assert calls.pop("server")[0] == host
        calls.clear()


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ([], "needs one checkpoint"),
        (["exp", "song.wav"], "not 2 words"),
        (["exp", "--max-mb", "0"], "--max-mb must be at least 1"),
        (["exp", "--ports", "1"], "--port"),
    ],
)
def test_usage(argv: list[str], part: str, calls: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(argv) == 2
    assert part in capsys.readouterr().err
    assert not calls
