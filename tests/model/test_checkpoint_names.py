"""``exp@checkpoint`` in its forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from amt.model.checkpoint_names import find_named, split_exp_id

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
