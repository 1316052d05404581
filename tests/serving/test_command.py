"""The real command in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import cast

import pytest

from amt.cli.serve import main
from amt.inference import SongTranscriber
from amt.serving.server import Server, serve

SECONDS = 300.0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_and_leaves_nothing(log_dir: Path, tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "amt.serve", "lively@last.ckpt", "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts something in the background has it ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "TMPDIR": str(temporary), "AMT_LOG_DIR": str(log_dir), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert re.fullmatch(r"listening at http://127\.0\.0\.1:\d+/ and loading .*last\.ckpt\n", first)
        assert "weights loaded" in process.stdout.readline()
        found = re.fullmatch(
            r"open (http://127\.0\.0\.1:\d+/) in a browser; Ctrl-C ends it\n", process.stdout.readline()
        )
        assert found is not None
        with urllib.request.urlopen(f"{found[1]}api/info", timeout=SECONDS) as answer:
            assert json.load(answer)["checkpoint"] == "last.ckpt"
        (folder,) = temporary.glob("amt-serve-*")
        assert folder.stat().st_mode & 0o077 == 0, "nobody else may look into it"
        process.send_signal(number)
        _, said = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert said == "stopping\n"
    assert not folder.exists()


def must_not_load(*_: object, **__: object) -> SongTranscriber:
    raise AssertionError("a model is loaded")


def test_a_port_that_is_taken_is_told_before_the_model_is_loaded(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("amt.inference.load_transcriber", must_not_load, raising=False)
    monkeypatch.setenv("AMT_LOG_DIR", str(log_dir))
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert main(["lively@last.ckpt", "--port", str(port)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: port {port} of 127.0.0.1 is taken")
    assert "--port" in err
    assert main(["nobody@last.ckpt", "--port", "0"]) == 2
    assert "nobody" in capsys.readouterr().err


def test_what_ends_the_loading_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail() -> SongTranscriber:
        raise ValueError("the weights do not fit")

    def interrupt() -> SongTranscriber:
        raise KeyboardInterrupt

    server = Server()
    with pytest.raises(ValueError, match="do not fit"):
        serve(server, fail)
    port = server.server_port
    assert serve(Server(port=port), interrupt) == 0, "its port is free again"
    assert capsys.readouterr().err == "stopping\n"
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_ready_once_it_has_its_model() -> None:
    """Whoever reads that it is open asks at once."""
    server, model, seen = Server(), cast(SongTranscriber, object()), []

    def ready() -> None:
        seen.append(server._transcriber)
        raise KeyboardInterrupt

    assert serve(server, lambda: model, ready) == 0
    assert seen == [model]
