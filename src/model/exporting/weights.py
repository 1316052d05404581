"""Weights alone as safetensors, with the configuration in the file's metadata; and reading them again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from ..checkpoint_content import Say, check_target, description, silent
from ..checkpoint_file import WEIGHTS_PREFIX, experiment_of, model_weights, read_checkpoint
from ..checkpoint_header import SAFETENSORS_SUFFIX
from ..checkpoint_write import replaced_file

_NUMBERS = ("amt_format", "global_step", "epoch")
_JSON = ("versions", "source")


def export_weights(
    src: str | Path, dst: str | Path, *, overwrite: bool = False, say: Say | None = None
) -> tuple[int, int]:
    """Write the weights of a checkpoint to a safetensors file that says what it is.

    The metadata hold the configuration (``experiment``, JSON), task, licence, source, step and versions as
    text, so that the file is all that :func:`~amt.inference.load_transcriber` needs.

    Returns:
        Number of tensors, and of values.

    Raises:
        ValueError: the file is broken or no checkpoint of ours, or ``dst`` is there and ``overwrite`` is not.
        OSError: when ``dst`` cannot be written.
    """
    src, dst, say = Path(src), Path(dst), say or silent
    if dst.suffix != SAFETENSORS_SUFFIX:
        raise ValueError(f"{dst}: a file of weights must end in {SAFETENSORS_SUFFIX}, by which it is known")
    check_target([src], dst, overwrite)
    say(f"reading {src}")
    checkpoint = read_checkpoint(src, mmap=True)
    weights = {name: value.contiguous() for name, value in model_weights(checkpoint, src).items()}
    content = description(experiment_of(checkpoint, src), str(checkpoint.get("licence", "")))
    content["source"] = dict(checkpoint.get("source") or {}) | {"exported_from": src.name}
    for name in ("global_step", "epoch"):
        content[name] = int(checkpoint.get(name) or 0)
    metadata = {"format": "pt"} | {
        name: json.dumps(value) if name in _JSON else str(value) for name, value in content.items()
    }
    say(f"writing {dst}")
    dst.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(dst) as file:
        file.write(save(weights, metadata))
    return len(weights), sum(value.numel() for value in weights.values())


def read_weights(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What :func:`~amt.model.checkpoint_file.read_checkpoint` gives, of a file of :func:`export_weights`.

    Raises:
        ValueError: one sentence that names the file and what is wrong with it.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        with safe_open(path, "pt") as file:
            content: dict[str, Any] = dict(file.metadata() or {})
            state = {WEIGHTS_PREFIX + name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for name in (*_NUMBERS, *_JSON):
            if name in content:
                content[name] = json.loads(content[name])
    except (SafetensorError, ValueError) as error:
        detail = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is no readable safetensors file ({detail})") from None
    content["state_dict"] = state
    return content
