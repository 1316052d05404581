"""Checkpoint files: what goes in, what comes out, and what a broken one is said to be."""

from __future__ import annotations

import enum
import errno
import os
import pathlib
import resource
import signal
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import read_header
from amt.model.checkpoint_write import CheckpointWriteError, check_plain
from amt.training.checkpoint_io import (
    AtomicCheckpointIO,
    copy_file,
)
from amt.training.faults import fault_point


def state(step: int = 7, size: int = 100) -> dict[str, Any]:
    return {
        "global_step": step,
        "epoch": 1,
        "state_dict": OrderedDict(weight=torch.arange(float(size)), bias=torch.nn.Parameter(torch.ones(2))),
        "optimizer_states": [
            {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"betas": (0.9, 0.99)}]}
        ],
        "loops": {},
    }


def test_saved_and_loaded_on_the_cpu_with_plain_types(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.ckpt"
    io = AtomicCheckpointIO()
    io.save_checkpoint(state(), path)
    loaded = io.load_checkpoint(path, map_location="cuda", weights_only=False)
    assert type(loaded["state_dict"]) is dict
    assert torch.equal(loaded["state_dict"]["weight"], torch.arange(100.0))
    assert loaded["optimizer_states"][0]["param_groups"][0]["betas"] == (0.9, 0.99)
    header = read_header(path)
    assert header is not None
    assert (header.step, header.epoch, header.complete) == (7, 1, True)
    assert [item.name for item in path.parent.iterdir()] == ["a.ckpt"]
    io.remove_checkpoint(path)
    assert not path.exists()


def test_damage_inside_a_whole_archive_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    AtomicCheckpointIO().save_checkpoint(state(), path)
    content = bytearray(path.read_bytes())
    where = content.index(b"global_step")
    content[where : where + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"a\.ckpt"):
        read_checkpoint(path)
    assert read_header(path) is None


def test_objects_are_refused_on_both_sides(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"checkpoint\['hyper_parameters'\]\['folder'\] is a PosixPath"):
        AtomicCheckpointIO().save_checkpoint(
            {"hyper_parameters": {"folder": pathlib.Path("x")}}, tmp_path / "a.ckpt"
        )
    assert list(tmp_path.iterdir()) == []
    torch.save(state() | {"hyper_parameters": {"folder": pathlib.PosixPath("x")}}, tmp_path / "foreign.ckpt")
    with pytest.raises(ValueError, match=r"foreign\.ckpt holds Python objects"):
        read_checkpoint(tmp_path / "foreign.ckpt")
    header = read_header(tmp_path / "foreign.ckpt")
    assert header is not None
    assert header.step == 7, "the header is read without running anything of the file"


class Colour(enum.IntEnum):
    RED = 3


def test_check_plain_rebuilds_what_it_can() -> None:
    plain = check_plain(
        {
            "a": np.float64(0.5),
            "b": np.int64(3),
            "c": Colour.RED,
            "d": torch.Size([2, 3]),
            "e": {1, 2},
            "f": OrderedDict(x=[None, True, "é", b"z", 1j]),
            "g": np.bool_(True),
        }
    )
    assert plain == {
        "a": 0.5,
        "b": 3,
        "c": 3,
        "d": (2, 3),
        "e": {1, 2},
        "f": {"x": [None, True, "é", b"z", 1j]},
        "g": True,
    }
    assert [type(plain[key]) for key in "abcdefg"] == [float, int, int, tuple, set, dict, bool]
    weight = torch.ones(2)
    assert check_plain({"w": weight})["w"].data_ptr() == weight.data_ptr(), "tensors are not copied"
    for bad in (np.zeros(2), object(), torch.float32, len):
        with pytest.raises(TypeError, match="tensors and plain types only"):
            check_plain([bad])


def test_a_write_that_the_system_refuses_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    io = AtomicCheckpointIO()
    io.save_checkpoint(state(1), path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # files end there, as on a full disk
    try:
        with pytest.raises(CheckpointWriteError) as caught:
            io.save_checkpoint(state(2, size=1_000_000), path)
        with pytest.raises(CheckpointWriteError):
            copy_file(Path(torch.__file__).parent / "_C" / "_VariableFunctions.pyi", tmp_path / "copy.ckpt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["last.ckpt"]


def test_drills(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(state(1), path)
    with pytest.raises(CheckpointWriteError) as caught:
        AtomicCheckpointIO("full-disk@save").save_checkpoint(state(2), path)
    assert caught.value.errno == errno.ENOSPC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads beside a fork; the child only saves
        child = os.fork()
    if child == 0:
        AtomicCheckpointIO("kill@save").save_checkpoint(state(2, size=9999), path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert read_checkpoint(path)["global_step"] == 1
    assert len(list(tmp_path.glob(".last.ckpt.*.tmp"))) == 1, "the half-written file is under another name"
    fault_point("save", "kill@500")
