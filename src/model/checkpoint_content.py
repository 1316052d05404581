"""What a checkpoint without training state holds, and writing it with the JSON file beside it."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..config import Experiment, get_task
from .checkpoint_file import CHECKPOINT_FORMAT
from .checkpoint_header import file_stamp, sidecar_path
from .checkpoint_write import write_checkpoint, write_text

Say = Callable[[str], None]
"""Told what is going on, a sentence at a time."""


def silent(sentence: str) -> None:
    """Tells nobody."""
    del sentence


def check_target(sources: Sequence[Path], target: Path, overwrite: bool) -> None:
    """Refuse to write over a source, a folder, or a file that is there.

    Raises:
        ValueError: says which.
    """
    if target.is_dir():
        raise ValueError(f"{target} is a folder; name the file to write")
    if not target.exists():
        return
    for source in sources:
        if source.exists() and source.samefile(target):
            raise ValueError(f"{target} is the source itself; write to another file")
    if not overwrite:
        raise ValueError(f"{target} is there already; --overwrite replaces it")


def description(
    experiment: Experiment, licence: str, libraries: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What every checkpoint says of itself, as plain types.

    Args:
        experiment: configuration of its run.
        licence: what its weights may be used for.
        libraries: versions to note besides ours and torch's.
    """
    return {
        "amt_format": CHECKPOINT_FORMAT,
        "experiment": experiment.to_json(),
        "versions": {
            "amt": __version__,
            "torch": str(torch.__version__),
            **(libraries or {}),
            "python": platform.python_version(),
        },
        "task": json.dumps(dataclasses.asdict(get_task(experiment.task)), ensure_ascii=False),
        "licence": licence,
    }


def weights_only_content(
    experiment: Experiment,
    state: Mapping[str, Tensor],
    licence: str,
    source: Mapping[str, Any],
    step: int,
    epoch: int,
) -> dict[str, Any]:
    """A checkpoint that can be transcribed with and warm-started from, not resumed.

    Args:
        experiment: configuration of its run.
        state: weights under the names of a training checkpoint.
        licence: what its weights may be used for.
        source: where they come from, as plain values.
        step: training step they stand at.
        epoch: likewise.
    """
    return {
        **description(experiment, licence),
        "source": dict(source),
        "global_step": step,
        "epoch": epoch,
        "state_dict": dict(state),
    }


def write_with_sidecar(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint of :func:`weights_only_content`, and beside it a JSON file that says what it is.

    Raises:
        OSError: when the file system refuses.
    """
    write_checkpoint(content, path)
    size, crc = file_stamp(path)
    plain = {
        "file": path.name,
        "step": content["global_step"],
        "epoch": content["epoch"],
        "size": size,
        "crc": crc,
        "licence": content["licence"],
        "source": content["source"],
        "experiment": json.loads(content["experiment"]),
    }
    write_text(sidecar_path(path), json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
