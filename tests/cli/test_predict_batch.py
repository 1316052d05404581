"""``predict_batch.py`` as a command."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from amt.cli import predict_batch
from amt.cli.options import OPTIONS
from amt.inference import DecodingChoices


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = []

    def run_batch(spec: str, inputs: list[Path], out: Path, **settings: Any) -> int:
        seen.append((spec, inputs, out, settings))
        return 1

    monkeypatch.setattr("amt.inference.run_batch", run_batch, raising=False)
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    return seen


def test_it_passes_on_what_was_said(calls: list[Any], tmp_path: Path) -> None:
    line = ["exp@last.ckpt", "my songs é", "b", "-o", "out é", "--format", "midi", "csv", "-p", "proj"]
    line += ["--device", "cuda:0", "cuda:1", "--processes", "2", "--again", "--overlap", "0.5"]
    line += ["--min-note-ms", "20", "--instruments", "Bass"]
    assert predict_batch.main(line) == 1
    [(spec, inputs, out, settings)] = calls
    assert (spec, inputs, out) == ("exp@last.ckpt", [Path("my songs é"), Path("b")], Path("out é"))
    assert settings == {
        "project": "proj",
        "log_dir": tmp_path,
        "devices": ("cuda:0", "cuda:1"),
        "processes": 2,
        "choices": DecodingChoices(overlap=0.5, min_note_ms=20.0, instruments=("Bass",)),
        "formats": ("mid", "csv"),
        "again": True,
    }


def test_it_fits_the_function_it_calls(calls: list[Any]) -> None:
    from amt.inference.batch import run_batch

    assert predict_batch.main(["exp", "songs", "-o", "out"]) == 1
    [(_, _, _, settings)] = calls
    parameters = inspect.signature(run_batch).parameters
    assert set(parameters) == {"spec", "inputs", "out", *settings}
    for name in ("devices", "processes", "choices", "formats", "again"):
        assert parameters[name].default == settings[name]


def test_it_takes_every_option_of_train(calls: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    own = (*predict_batch.BATCH_OPTIONS, *predict_batch._TRAIN_OPTIONS)
    assert {name for option in OPTIONS for name in option.names} <= {n for o in own for n in o.names}
    assert predict_batch.main(["exp", "songs", "-o", "out", "-lr", "1e-3", "-d", "slakh"]) == 1
    assert capsys.readouterr().err == "flags of training, ignored here: -lr -d\n"


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["exp@last.ckpt", "-o", "out"], "a folder of audio files"),
        (["exp", "songs"], "a folder for its outputs"),
        (["exp", "songs", "-o", "-"], "a folder for its outputs"),
        (["exp", "songs", "-o", "adamw"], "folder of the outputs"),
        (["exp", "songs", "-o", "out", "--process", "2"], "--processes"),
    ],
)
def test_usage(argv: list[str], part: str, calls: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert predict_batch.main(argv) == 2
    assert part in capsys.readouterr().err
    assert not calls


def test_help_says_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert predict_batch.main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in ("0 all files done", "1 some could not be read", "130 interrupted", "--processes N"):
        assert words in text


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(tmp_path / "gone.ckpt")
    assert predict_batch.main([spec, str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"error: {spec} does not exist\n"
