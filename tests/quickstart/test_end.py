"""What the quick start says at its end: which state is kept, and what to do next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amt.quickstart.run import next_commands, print_places


def test_the_kept_state_and_the_next_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("src/predict.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setattr("amt.quickstart.run.default_root", lambda: tmp_path)
    model = tmp_path / "quickstart" / "model.ckpt"
    print_places(model, print)
    said = capsys.readouterr().out
    assert f"{model} (the last state of the run)" in said
    assert said.endswith("\n  .venv/bin/python src/predict.py quickstart/model.ckpt SONG.wav\n  make serve\n")
    other = tmp_path / "my results" / "model.ckpt"
    assert next_commands(other, tmp_path) == [
        ".venv/bin/python src/predict.py 'my results/model.ckpt' SONG.wav",
        ".venv/bin/python -m amt.serve 'my results/model.ckpt'",
    ]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    python = tmp_path / ".venv" / "bin" / "python"
    assert next_commands(model, tmp_path) == [
        f"{python} -m amt.predict {model} SONG.wav",
        f"{python} -m amt.serve {model}",
    ]
