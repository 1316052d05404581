"""The real command in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

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
