"""``exp@checkpoint`` in its forms."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amt.model.checkpoint_names import find_named, missing_text, split_exp_id

BEST = "epoch=4-step=24000-validation_macro_onset_f=0.7864.ckpt"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exp", ("exp", None)),
        ("exp=1", ("exp=1", None)),
        ("exp@last", ("exp", "last")),
        (f"exp@{BEST}", ("exp", BEST)),
        ("exp@v2@last.ckpt", ("exp@v2", "last.ckpt")),
        ("exp@/data/a@b/c@d.ckpt", ("exp", "/data/a@b/c@d.ckpt")),
        ("exp@v2@./x@y.ckpt", ("exp@v2", "./x@y.ckpt")),
        ("exp@~/x.ckpt", ("exp", "~/x.ckpt")),
        ("é 1@last", ("é 1", "last")),
    ],
)
def test_split_exp_id(text: str, expected: tuple[str, str | None]) -> None:
    assert split_exp_id(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "exp@", "@last", "../other/exp", "a/b", "..", "a\\b", "a\nb", "../x@last"]
)
def test_names_that_are_no_folder_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"exp_id|names no checkpoint"):
        split_exp_id(text)


def test_a_name_finds_its_file(tmp_path: Path) -> None:
    (tmp_path / BEST).touch()
    (tmp_path / "last.ckpt").touch()
    slashed = BEST.replace("validation_", "validation/")
    for name in (
        BEST,
        slashed,
        BEST.removesuffix(".ckpt"),
        slashed.removesuffix(".ckpt"),
        str(tmp_path / BEST),
    ):
        assert find_named(tmp_path, name) == tmp_path / BEST
    assert find_named(tmp_path, "last") == tmp_path / "last.ckpt"
    for name in ("", ".", "las", "../last.ckpt", str(tmp_path)):
        assert find_named(tmp_path, name) is None


def write_last(folder: Path, *ranked: str) -> None:
    """A ``last.ckpt`` with a ranking, best first."""
    rows = [[name, 0.9 - place / 10, place] for place, name in enumerate(ranked)]
    torch.save({"callbacks": {"CustomModelCheckpoint": {"ranking": rows}}}, folder / "last.ckpt")


def test_best_is_the_first_of_the_ranking_that_is_there(tmp_path: Path) -> None:
    write_last(tmp_path, "first.ckpt", "second.ckpt")
    assert find_named(tmp_path, "best") is None, "neither file is there"
    (tmp_path / "second.ckpt").touch()
    assert find_named(tmp_path, "best") == tmp_path / "second.ckpt"
    (tmp_path / "first.ckpt").touch()
    for name in ("best", "best.ckpt"):
        assert find_named(tmp_path, name) == tmp_path / "first.ckpt"
    (tmp_path / "best.ckpt").touch()
    assert find_named(tmp_path, "best") == tmp_path / "best.ckpt", "a file of that name comes first"


def test_without_a_ranking_there_is_no_best(tmp_path: Path) -> None:
    (tmp_path / "step=1.ckpt").touch()
    assert find_named(tmp_path, "best") is None, "no last.ckpt"
    write_last(tmp_path)
    assert find_named(tmp_path, "best") is None, "nothing was validated"
    (tmp_path / "last.ckpt").write_bytes(b"spoilt")
    assert find_named(tmp_path, "best") is None


def test_a_ranking_names_no_file_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (tmp_path / "other.ckpt").touch()
    write_last(folder, "../other.ckpt", str(tmp_path / "other.ckpt"))
    assert find_named(folder, "best") is None


def test_a_missing_name_is_explained() -> None:
    assert missing_text("x", "exp") == "no checkpoint 'x' of exp"
    assert missing_text("best", "exp").startswith("exp has no best checkpoint yet: ")
    assert "exp@last" in missing_text("best.ckpt", "exp")
