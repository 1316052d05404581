"""Reading other people's checkpoints: nothing of them runs, everything useful arrives."""

from __future__ import annotations

import collections
import os
import pickle
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.model.importing.foreign_file import ForeignObject, read_foreign

BROKEN = Path(__file__).parents[1] / "data"


class Bomb:
    """An object whose unpickling would run a command."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.target}'",)


@pytest.fixture
def foreign_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the system that wrote the file; the reader cannot import it."""
    module = types.ModuleType("utils_of_others")

    class TaskManager:
        def __init__(self) -> None:
            self.task_name = "mt3_full_plus"
            self.codec = collections.OrderedDict(events=[1, 2])

        def __setstate__(self, state: object) -> None:
            raise AssertionError("the file's own code ran")

    class Settings(dict):
        pass

    for kind in (TaskManager, Settings):
        kind.__module__ = "utils_of_others"
        kind.__qualname__ = kind.__name__
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "utils_of_others", module)
    yield module
    monkeypatch.delitem(sys.modules, "utils_of_others", raising=False)


def save(path: Path, **content: Any) -> Path:
    torch.save({"state_dict": {"a": torch.ones(2)}} | content, path)
    return path


def test_pickled_commands_never_run(tmp_path: Path) -> None:
    target = tmp_path / "ran"
    path = save(tmp_path / "a.ckpt", hyper_parameters={"x": Bomb(target), "audio_cfg": {"hop_length": 300}})
    read = read_foreign(path)
    assert not target.exists()
    assert read.setting("audio_cfg", "hop_length") == 300
    assert torch.equal(read.weights["a"], torch.ones(2))
    pickle.loads(pickle.dumps(Bomb(target)))
    assert target.exists(), "the bomb works where it is not defused"


def test_a_bomb_among_the_weights_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "ran"
    path = save(tmp_path / "a.ckpt", state_dict={"a": torch.ones(2), "b": Bomb(target)})
    with pytest.raises(ValueError, match=r"a\.ckpt: 1 entries of its state_dict are no tensors \(b\)"):
        read_foreign(path)
    assert not target.exists()


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "open"])
def test_builtins_are_inert(tmp_path: Path, name: str) -> None:
    import builtins

    class Call:
        def __reduce__(self) -> Any:
            return getattr(builtins, name), ("1 + 1",)

    path = save(tmp_path / "a.ckpt", hyper_parameters={"x": Call()})
    assert isinstance(read_foreign(path).settings["x"], ForeignObject)


def test_foreign_objects_keep_their_plain_attributes(tmp_path: Path, foreign_class: Any) -> None:
    settings = foreign_class.Settings(num_heads=6)
    path = save(
        tmp_path / "a.ckpt",
        hyper_parameters={"task_manager": foreign_class.TaskManager(), "model_cfg": settings},
    )
    del sys.modules["utils_of_others"]
    read = read_foreign(path)
    assert read.settings["task_manager"].foreign_name == "utils_of_others.TaskManager"
    assert read.setting("task_manager", "task_name") == "mt3_full_plus"
    assert read.setting("task_manager", "codec", "events") == [1, 2]
    assert read.setting("model_cfg") == {"num_heads": 6}
    assert read.setting("model_cfg", "num_heads", "deeper") is None
    assert read.setting("nothing", "there") is None


def test_tensors_of_all_kinds_and_containers_arrive(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    state = collections.OrderedDict(
        view=base.view(3, 4)[:, 1:],
        parameter=torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        count=torch.tensor(7),
    )
    counts = collections.defaultdict(int, a=3)
    path = save(
        tmp_path / "a.ckpt", state_dict=state, global_step=5, epoch=1, hyper_parameters={"counts": counts}
    )
    read = read_foreign(path)
    assert torch.equal(read.weights["view"], base.view(3, 4)[:, 1:])
    assert read.weights["parameter"].dtype == torch.bfloat16
    assert not isinstance(read.weights["parameter"], torch.nn.Parameter)
    assert (int(read.weights["count"]), read.step, read.epoch) == (7, 5, 1)
    assert read.setting("counts", "a") == 3


def test_pitch_shift_kernels_are_dropped_and_wrappers_taken_off(tmp_path: Path) -> None:
    state = {
        "pitchshift.pshifters.-2.kernel": torch.zeros(4, 1, 3),
        "module.encoder._orig_mod.latents": torch.ones(1),
    }
    read = read_foreign(save(tmp_path / "a.ckpt", state_dict=state))
    assert list(read.weights) == ["encoder.latents"]
    assert read.dropped == ("pitchshift.pshifters.-2.kernel",)


def test_a_bare_state_dict(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
    read = read_foreign(tmp_path / "a.pt")
    assert list(read.weights) == ["a"]
    assert read.step is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("c1_zero_bytes.ckpt", "empty"),
        ("c2_git_lfs_pointer.ckpt", "Git LFS pointer"),
        ("c3_truncated_zip.ckpt", "cut off"),
        ("missing.ckpt", "does not exist"),
    ],
)
def test_broken_files_are_told_apart(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_foreign(BROKEN / name)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "page.ckpt").write_text("<!DOCTYPE html><html>404</html>")
    with pytest.raises(ValueError, match=r"page\.ckpt is a web page"):
        read_foreign(tmp_path / "page.ckpt")
    with pytest.raises(ValueError, match="checkpoint of amt already"):
        read_foreign(save(tmp_path / "ours.ckpt", amt_format=1))
    torch.save({"epoch": 1, "state_dict": {}}, tmp_path / "empty.ckpt")
    with pytest.raises(ValueError, match="has no weights"):
        read_foreign(tmp_path / "empty.ckpt")
    torch.save([torch.ones(1)], tmp_path / "list.ckpt")
    with pytest.raises(ValueError, match="holds a list"):
        read_foreign(tmp_path / "list.ckpt")


def test_a_program_is_not_opened(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "program.ckpt", "w") as archive:  # the parts of a TorchScript archive
        for name in ("data.pkl", "constants.pkl", "code/__torch__.py"):
            archive.writestr(f"program/{name}", b"")
    with pytest.raises(ValueError, match="TorchScript program"):
        read_foreign(tmp_path / "program.ckpt")


def test_damage_inside_is_a_sentence(tmp_path: Path) -> None:
    path = save(tmp_path / "a.ckpt")
    content = bytearray(path.read_bytes())
    where = content.index(b"state_dict")
    content[where : where + 30] = b"\xff" * 30
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"a\.ckpt is damaged"):
        read_foreign(path)
