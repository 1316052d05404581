"""convert.py: each form of the command line, in this process and as the entry file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import amt
from amt.cli.command import EXIT_ERROR, EXIT_OK
from amt.cli.convert import COMMANDS, main
from amt.model.checkpoint_file import read_checkpoint
from script_loading import load_samples

PACKAGE = Path(amt.__file__).parent
BROKEN = Path(__file__).parents[1] / "model" / "data"


@pytest.fixture(scope="module")
def samples() -> ModuleType:
    return load_samples()


@pytest.fixture(scope="module")
def published(samples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of the published kind, without its settings."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("files")
    state = samples.random_state(samples.small("yptf_single"))
    return samples.lightning_file(folder / "model@model.ckpt", state)  # type: ignore[no-any-return]


def test_conversion_and_all_that_follows(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    ours = tmp_path / "logs" / "ymt3" / "exp" / "checkpoints" / "a.ckpt"
    assert main([str(published), str(ours), "--layout", "yptf_single", "--licence", "CC0"]) == EXIT_OK
    out = capsys.readouterr()
    assert "a.ckpt written: " in out.out
    assert "--init-ckpt" in out.out
    assert f"reading {published}" in out.err
    assert read_checkpoint(ours)["licence"] == "CC0"
    assert main(["info", "exp@a", str(published)]) == EXIT_OK
    out = capsys.readouterr()
    assert "licence     CC0" in out.out
    assert "published checkpoint, like yptf_single" in out.out
    assert main(["strip", "exp@a.ckpt", str(tmp_path / "b.ckpt")]) == EXIT_OK
    assert "b.ckpt written: " in capsys.readouterr().out
    assert main(["average", "exp@a", str(tmp_path / "b.ckpt"), "-o", str(tmp_path / "c.ckpt")]) == EXIT_OK
    assert "the mean of 2 checkpoints" in capsys.readouterr().out
    mix = ["mix", str(ours), str(tmp_path / "c.ckpt"), "--alpha", "0.3", "-o", str(tmp_path / "d.ckpt")]
    assert main(mix) == EXIT_OK
    assert "0.7 of" in capsys.readouterr().out
    assert main(["export", str(tmp_path / "d.ckpt"), str(tmp_path / "e.ckpt")]) == EXIT_OK
    out = capsys.readouterr()
    assert "e.ckpt written as yptf_single: " in out.out
    assert "warning: no flag of the published code sets" in out.err
    back = torch.load(tmp_path / "e.ckpt", weights_only=True)["state_dict"]
    there = torch.load(published, weights_only=True)["state_dict"]
    assert set(back) == set(there)
    assert all(torch.allclose(back[name], there[name], atol=1e-6) for name in there)


def test_what_was_assumed_is_a_warning(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(published), str(tmp_path / "a.ckpt")]) == EXIT_OK
    assert "warning: the file does not say num_heads 8, hidden_act gelu" in capsys.readouterr().err
    assert main([str(published), str(tmp_path / "a.ckpt")]) == EXIT_ERROR
    assert "is there already; --overwrite" in capsys.readouterr().err
    assert main([str(published), str(tmp_path / "a.ckpt"), "--overwrite"]) == EXIT_OK


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one.ckpt"], "two files are needed, not 1: convert.py SRC DST"),
        (["export", "a", "b", "c"], "two files are needed, not 3: convert.py export SRC DST"),
        (["average", "a", "b"], "-o OUT is missing"),
        (["mix", "a", "b", "-o", "c"], "--alpha X is missing"),
        (["mix", "a", "b", "--alpha", "x", "-o", "c"], "--alpha"),
        (["info"], "a checkpoint is missing"),
        (["a", "b", "--layout", "yptf_singel"], "did you mean 'yptf_single'?"),
        (["a", "b", "--task", "mc13_ful_plus"], "did you mean"),
        (["strip", "missing.ckpt", "b.ckpt"], "missing.ckpt does not exist"),
        (["info", str(BROKEN / "c1_zero_bytes.ckpt")], "is empty (0 bytes)"),
        ([str(BROKEN / "c2_git_lfs_pointer.ckpt"), "b.ckpt"], "is a Git LFS pointer"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == EXIT_ERROR
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ")
    assert said in lines[-1]
    assert list(tmp_path.iterdir()) == []


def test_info_goes_on_after_a_broken_file(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(BROKEN / "c3_truncated_zip.ckpt"), str(published)]) == EXIT_ERROR
    out = capsys.readouterr()
    assert "is cut off" in out.err
    assert "like yptf_single" in out.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_form_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name:
        assert main([name, "--help"]) == EXIT_OK
        text = capsys.readouterr().out
        assert COMMANDS[name].usage in text
        for option in COMMANDS[name].options:
            assert option.long in text
    assert main(["--help"]) == EXIT_OK
    assert COMMANDS[name].usage in capsys.readouterr().out
    assert main([]) == EXIT_ERROR


def test_options_of_the_first_form_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "b", "--help"]) == EXIT_OK
    text = capsys.readouterr().out
    for option in COMMANDS[""].options:
        assert option.long in text


def test_the_entry_file_is_light_and_works_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(PACKAGE / "convert.py"), "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "convert.py export SRC DST" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"torch", "numpy", "pytorch_lightning"}
