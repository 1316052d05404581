"""The run folder: its layout, whole-or-nothing writes, and moving old files aside."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from amt.model.checkpoint_write import replaced_file
from amt.training.run_folder import (
    LOCK_NAME,
    RunFolder,
    move_aside,
    old_files,
    previous_folders,
    remove_stale_temporaries,
    write_config,
)


def test_layout(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "logs" / "my proj é" / "exp")
    run.create()
    run.create()
    assert run.last == run.root / "checkpoints" / "last.ckpt"
    assert sorted(path.name for path in run.root.iterdir()) == ["checkpoints", "outputs"]
    assert write_config(run.root, '{"é": 1}\n') == run.config
    assert run.config.read_text(encoding="utf-8") == '{"é": 1}\n'


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="AMT_LOG_DIR"):
        RunFolder(tmp_path / "file" / "exp").create()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "logs" / "exp")
    said = "another run is writing in .*exp: wait for it or stop it"
    with run.held():
        with pytest.raises(ValueError, match=said), RunFolder(run.root).held():
            pass
        assert old_files(run.root) == []
        assert move_aside(run.root) is None
    with run.held():
        pass


def test_a_loader_that_outlives_its_run_does_not_hold_the_folder(tmp_path: Path) -> None:
    """A fork has the lock's file too; the next start of a run that was killed must not wait for it."""
    run = RunFolder(tmp_path / "exp")
    here, there = socket.socketpair()
    with run.held():
        child = os.fork()
        if child == 0:
            there.send(b"I am here")
            there.recv(1)
            os._exit(0)
        assert here.recv(9) == b"I am here"
        assert (run.root / LOCK_NAME).is_file()
    try:
        with run.held():
            pass
    finally:
        here.send(b"x")
        assert os.waitpid(child, 0)[1] == 0
        here.close()
        there.close()


def test_move_aside_counts_and_deletes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "exp"
    assert move_aside(root) is None
    for text in ("one", "two"):
        RunFolder(root).create()
        RunFolder(root).last.write_text(text)
        RunFolder(root).metrics.write_text(text)
        assert move_aside(root) is not None
        assert old_files(root) == []
    assert move_aside(root) is None
    assert [folder.name for folder in previous_folders(root)] == ["previous-1", "previous-2"]
    assert (root / "previous-1" / "checkpoints" / "last.ckpt").read_text() == "one"
    assert (root / "previous-2" / "metrics.csv").read_text() == "two"


def test_an_error_inside_the_block_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replaced_file(path) as file:
        file.write(b"old")
    replacing = replaced_file(path)
    replacing.__enter__().write(b"new")
    assert replacing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is not True
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_only_our_temporaries_are_removed(tmp_path: Path) -> None:
    for name in (".last.ckpt.77.tmp", ".last.json.8.tmp", ".notes.tmp", "x.tmp", ".gitkeep"):
        (tmp_path / name).write_text("")
    assert remove_stale_temporaries(tmp_path) == [".last.ckpt.77.tmp", ".last.json.8.tmp"]
    assert sorted(item.name for item in tmp_path.iterdir()) == [".gitkeep", ".notes.tmp", "x.tmp"]
    assert remove_stale_temporaries(tmp_path / "none") == []
