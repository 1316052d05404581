"""The best files of a run: their names, their order, and which one falls out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from ...config import unknown_name
from ...model.checkpoint_names import LAST_NAME

Row = tuple[str, float, int]
"""(file name relative to the checkpoint folder, score, step)."""

_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
_NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"


class Ranking:
    """At most ``size`` rows, best first; among equal scores the earlier step is the better."""

    def __init__(self, mode: str, size: int) -> None:
        self.mode = mode
        self.size = size
        self.rows: list[Row] = []

    def best(self) -> Row | None:
        """The best row."""
        return self.rows[0] if self.rows else None

    def add(self, name: str, score: float, step: int) -> tuple[bool, list[str]]:
        """Put a file in; returns whether it stays, and the names that fall out for it.

        A row of the same name is replaced: the file is written over.
        """
        assert math.isfinite(score), "only finite scores are ranked"
        self.rows = [row for row in self.rows if row[0] != name] + [(name, score, step)]
        self.sort()
        fallen = [row[0] for row in self.rows[self.size :]]
        self.rows = self.rows[: self.size]
        return name not in fallen, [item for item in fallen if item != name]

    def sort(self) -> None:
        """Bring the rows in order."""
        sign = -1.0 if self.mode == "max" else 1.0
        self.rows.sort(key=lambda row: (sign * row[1], row[2]))


def file_name(template: str, epoch: int, step: int, metrics: Mapping[str, float]) -> str:
    """The flat name of a checkpoint, ``/`` as ``_``: ``{epoch}-{step}-{validation/macro_onset_f:.4f}`` gives
    ``epoch=4-step=24000-validation_macro_onset_f=0.7864.ckpt``. A key without a value reads ``=none``.
    """
    values: dict[str, float] = {**metrics, "epoch": epoch, "step": step}

    def field(match: re.Match[str]) -> str:
        key, spec = match[1], match[2] or ""
        text = format(values[key], spec) if key in values else "none"
        return f"{key}={text}"

    name = _FIELD.sub(field, template)
    if "{step" not in template:  # without it two steps could share a name
        name = f"{name}-step={step}"
    return re.sub(r"[/\\]", "_", name) + ".ckpt"


def validate_template(template: str) -> None:
    """Refuse a file name template that cannot be filled in or that other files of the run use.

    Raises:
        ValueError: naming ``AMT_CHECKPOINT_FILENAME``.
    """
    rest = _FIELD.sub("", template)
    if not template.strip() or "{" in rest or "}" in rest:
        raise ValueError(f"AMT_CHECKPOINT_FILENAME {template!r} has unpaired braces or is empty")
    for match in _FIELD.finditer(template):
        try:
            format(1 if match[1] in ("epoch", "step") else 0.5, match[2] or "")
        except ValueError as error:
            raise ValueError(
                f"AMT_CHECKPOINT_FILENAME: {match[0]!r} has no valid number format ({error}); "
                "write for example {validation/macro_onset_f:.4f}"
            ) from error
    if file_name(template, 1, 1, {}) in ("step=1.ckpt", "preval-step=1.ckpt", LAST_NAME):
        raise ValueError(
            f"AMT_CHECKPOINT_FILENAME {template!r} gives the names of the periodic files; add a score"
        )


def check_template_names(template: str, logged: set[str]) -> None:
    """Refuse a file name template with a name that a validation never logs.

    Raises:
        ValueError: naming ``AMT_CHECKPOINT_FILENAME`` and the near names.
    """
    known = logged | {"epoch", "step"}
    for match in _FIELD.finditer(template):
        if match[1] not in known:
            raise unknown_name("name in AMT_CHECKPOINT_FILENAME", match[1], known)


def scores_in_names(folder: Path, monitor: str) -> list[Row]:
    """Rows for the files in ``folder`` whose name carries a score of ``monitor``, in no order."""
    key = re.escape(re.sub(r"[/\\]", "_", monitor))
    score = re.compile(rf"(?:^|-){key}={_NUMBER}(?=-|\.ckpt$)")
    step = re.compile(r"(?:^|-)step=(\d+)(?=-|\.ckpt$)")
    rows: list[Row] = []
    for path in sorted(folder.glob("*.ckpt")):
        if found := score.search(path.name):
            at = step.search(path.name)
            rows.append((path.name, float(found[1]), int(at[1]) if at else 0))
    return rows
