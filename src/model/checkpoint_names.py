"""What ``exp@checkpoint`` means: the two parts, and the file a checkpoint's name stands for.

``exp@last`` is the newest state of a run and ``exp@best`` the file with the best score of its validations.
Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..config.names import named_path
from .checkpoint_header import read_header

CHECKPOINTS = "checkpoints"
"""Folder of a run that holds its checkpoint files."""
LAST_NAME = "last.ckpt"
"""The newest state of a run."""
BEST = "best"
"""Name for the file with the best score, whatever its own name."""
_PATH_STARTS = ("/", "./", "../", "~")
_LONGEST_NAME = 255


def split_exp_id(text: str) -> tuple[str, str | None]:
    """``"exp@checkpoint"`` -> ``("exp", "checkpoint")``; without ``@`` the checkpoint is None.

    The last ``@`` splits, so ``exp@v2@last.ckpt`` is the experiment ``exp@v2``; but the first ``@`` that
    is followed by the start of a path (``/``, ``./``, ``../`` or ``~``) splits before it, so a path may
    hold ``@`` itself. ``=`` has no meaning in either part.

    Raises:
        ValueError: when a part is empty or the experiment's name cannot be a folder of its own.
    """
    experiment, checkpoint = text, None
    if "@" in text:
        positions = [index for index, char in enumerate(text) if char == "@"]
        paths = [index for index in positions if text[index + 1 :].startswith(_PATH_STARTS)]
        cut = paths[0] if paths else positions[-1]
        experiment, checkpoint = text[:cut], text[cut + 1 :]
        if not checkpoint:
            raise ValueError(
                f"{text!r} names no checkpoint after '@': write {experiment}@last, {experiment}@{BEST} or "
                f"{experiment}"
            )
    check_folder_name("exp_id", experiment)
    return experiment, checkpoint


def check_folder_name(kind: str, name: str) -> None:
    """Refuse a name that cannot be one folder in the log folder.

    Raises:
        ValueError: names ``kind``.
    """
    if not name.strip() or name in (".", ".."):
        raise ValueError(f"{kind} must be a name, not {name!r}")
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise ValueError(
            f"{kind} is longer than the {_LONGEST_NAME} bytes of a file's name: {name[:20]!r}..."
        )
    if any(0xD800 <= ord(char) < 0xE000 for char in name):
        raise ValueError(f"{kind} {name!r} is not UTF-8")
    if any(char in "/\\" or ord(char) < 32 for char in name):
        raise ValueError(
            f"{kind} {name!r} must not contain '/', '\\' or control characters: it is the name of one folder "
            "in the log folder (AMT_LOG_DIR moves that)"
        )


def find_named(folder: Path, name: str) -> Path | None:
    """The file that ``name`` stands for in the folder ``checkpoints``, or None when there is none.

    ``.ckpt`` may be left out, ``/`` may stand where the file has ``_``, a name that begins like a path is
    one, and so is one with ``/`` in it that is found from the run's folder or from the working folder.
    ``best`` is the best file there is, unless a file has that name.
    """
    if name.startswith(_PATH_STARTS):
        bases = [named_path(name)]
    else:
        bases = [folder / name, folder / name.replace("/", "_")]
        if "/" in name:
            bases += [folder.parent / name, Path(name)]
    candidates = [path for base in bases for path in (base, Path(f"{base}.ckpt"))]
    found = next((path for path in candidates if path.is_file()), None)
    return _best_file(folder) if found is None and _means_best(name) else found


def missing_text(name: str, exp_id: str) -> str:
    """How an error begins that a run has no file ``name``; of ``best`` also why, and the way out."""
    if not _means_best(name):
        return f"no checkpoint {name!r} of {exp_id}"
    return (
        f"{exp_id} has no {BEST} checkpoint yet: the first validation with a score makes one (-vit says "
        f"when, --save-top-k 0 keeps none); {exp_id}@last is its newest state"
    )


def listed_files(names: Sequence[str]) -> str:
    """The checkpoints that a run has; of none, when it makes them."""
    return ", ".join(names) or (
        "none: a run saves at its validations (-vit), every AMT_SAVE_EVERY_N_TRAIN_STEPS steps, at Ctrl-C "
        "and at its end"
    )


def _means_best(name: str) -> bool:
    return name in (BEST, f"{BEST}.ckpt")


def _best_file(folder: Path) -> Path | None:
    """The first file of the ranking in ``last.ckpt`` that is still there."""
    newest = read_header(folder / LAST_NAME)
    names = () if newest is None else newest.ranking
    ranked = (folder / name for name in names if Path(name).name == name)
    return next((path for path in ranked if path.is_file()), None)
