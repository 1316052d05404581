"""Checkpoint files are read without running anything of theirs, and only whole sets of weights are loaded."""

import io
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from amt.model.checkpoint_file import load_weights, model_weights, read_checkpoint


def test_every_cut_is_an_error(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"state_dict": {"model.a": torch.arange(3000.0)}}, buffer)
    whole = buffer.getvalue()
    path = tmp_path / "cut.ckpt"
    for size in (1, 10, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.ckpt"):
            read_checkpoint(path)


def test_whole_file_is_read(tmp_path: Path) -> None:
    torch.save({"amt_format": 1, "state_dict": {"model.a": torch.arange(3.0)}}, tmp_path / "a.ckpt")
    loaded = read_checkpoint(tmp_path / "a.ckpt")
    assert model_weights(loaded, "a.ckpt")["a"].tolist() == [0.0, 1.0, 2.0]


def test_refuses_code_and_the_future(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "where": Path("x")}, tmp_path / "code.ckpt")
    with pytest.raises(ValueError, match=r"code\.ckpt holds Python objects"):
        read_checkpoint(tmp_path / "code.ckpt")
    torch.save({"amt_format": 99}, tmp_path / "new.ckpt")
    with pytest.raises(ValueError, match="format 99"):
        read_checkpoint(tmp_path / "new.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    with pytest.raises(ValueError, match="list"):
        read_checkpoint(tmp_path / "list.ckpt")


def test_cuda_tag_loads_on_cpu(tmp_path: Path) -> None:
    """The location tag of a storage is plain text in the pickle: rewrite ``cpu`` as ``cuda:3``."""
    torch.save({"state_dict": {"model.a": torch.ones(4)}}, tmp_path / "cpu.ckpt")
    with (
        zipfile.ZipFile(tmp_path / "cpu.ckpt") as source,
        zipfile.ZipFile(tmp_path / "gpu.ckpt", "w") as target,
    ):
        for item in source.infolist():
            content = source.read(item)
            if item.filename.endswith("data.pkl"):
                assert b"\x03\x00\x00\x00cpu" in content
                content = content.replace(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:3")
            target.writestr(item, content)
    weights = model_weights(read_checkpoint(tmp_path / "gpu.ckpt"), "gpu.ckpt")
    assert weights["a"].device.type == "cpu"
    assert weights["a"].sum() == 4


@pytest.mark.parametrize("names", ["module.model.{}", "model.module.{}", "model._orig_mod.{}", "model.{}"])
def test_wrapped_names(names: str) -> None:
    model = nn.Linear(2, 3)
    state = {names.format(name): value for name, value in model.state_dict().items()}
    other = nn.Linear(2, 3)
    assert load_weights(other, model_weights({"state_dict": state}, "x"), "x") == 2
    assert torch.equal(other.weight, model.weight)


def test_missing_unknown_and_misshapen_weights_are_refused() -> None:
    model = nn.Linear(2, 3)
    whole = dict(model.state_dict())
    before = model.weight.clone()
    with pytest.raises(ValueError, match=r"x.ckpt: 1 of 2 weights fit the model, 1 missing \(bias\)"):
        load_weights(model, {"weight": whole["weight"]}, "x.ckpt")
    with pytest.raises(ValueError, match="1 unknown"):
        load_weights(model, whole | {"more": torch.zeros(1)}, "x.ckpt")
    with pytest.raises(ValueError, match=r"weight \(4, 2\) in the file, \(3, 2\) in the model"):
        load_weights(model, whole | {"weight": torch.zeros(4, 2)}, "x.ckpt")
    assert torch.equal(model.weight, before)


def test_no_weights_at_all() -> None:
    with pytest.raises(ValueError, match="no weights"):
        model_weights({}, "x.ckpt")
    with pytest.raises(ValueError, match="none of its 1 weights"):
        model_weights({"state_dict": {"encoder.a": torch.zeros(1)}}, "x.ckpt")
