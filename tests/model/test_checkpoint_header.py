"""What a checkpoint file is said to be, and how much of it is known without opening it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import diagnose_file, read_header, read_sidecar, sidecar_path

DATA = Path(__file__).parent / "data"
BROKEN = {
    "c1_zero_bytes.ckpt": "empty",
    "c2_git_lfs_pointer.ckpt": "Git LFS pointer",
    "c3_truncated_zip.ckpt": "cut off",
}
STATE = {"global_step": 7, "epoch": 1, "state_dict": {"weight": torch.arange(100.0)}}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_files_are_told_apart(name: str) -> None:
    assert BROKEN[name] in str(diagnose_file(DATA / name))
    with pytest.raises(ValueError, match=BROKEN[name]):
        read_checkpoint(DATA / name)
    assert read_header(DATA / name) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"\xef\xbb\xbf<html>login</html>", "web page"),
        (b"\x80\x02}q\x00.", "old format"),
        (b"hello", "not a checkpoint"),
        (b"PK\x03\x04 and so on", "cut off"),
    ],
)
def test_other_content_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    path.write_bytes(content)
    assert words in str(diagnose_file(path))


def test_missing_folder_link_and_a_file_cut_anywhere(tmp_path: Path) -> None:
    assert diagnose_file(tmp_path / "none.ckpt") == "does not exist"
    assert "folder" in str(diagnose_file(tmp_path))
    link = tmp_path / "link.ckpt"
    link.symlink_to("gone.ckpt")
    assert "link" in str(diagnose_file(link))
    whole = tmp_path / "whole.ckpt"
    torch.save(STATE, whole)
    assert diagnose_file(whole) is None
    content = whole.read_bytes()
    for part in (0.1, 0.5, 0.9, 0.999):
        cut = tmp_path / "cut.ckpt"
        cut.write_bytes(content[: int(len(content) * part)])
        assert "cut off" in str(diagnose_file(cut))


def test_another_zip_archive_is_no_checkpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "songs.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    assert "no checkpoint" in str(diagnose_file(tmp_path / "songs.zip"))


def test_reading_a_header_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"global_step": 3, "x": Evil()}, tmp_path / "evil.ckpt")
    header = read_header(tmp_path / "evil.ckpt")
    assert header is not None
    assert header.step == 3
    assert not (tmp_path / "ran").exists()


def test_sidecar_is_believed_only_for_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "epoch=1-score=0.5.ckpt"
    torch.save(STATE, path)
    assert sidecar_path(path).name == "epoch=1-score=0.5.json"
    assert read_sidecar(path) is None
    for text in ("{", "[]", '{"size": 1}'):
        sidecar_path(path).write_text(text)
        assert read_sidecar(path) is None


def test_looking_at_a_file_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from amt.model.checkpoint_header import diagnose_file; "
        f"assert 'exist' in diagnose_file(__import__('pathlib').Path({str(tmp_path / 'no')!r})); "
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
