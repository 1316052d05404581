"""Reading checkpoint files: their contents and their weights.

A checkpoint holds tensors and plain types only, so it is read with ``weights_only=True``, to the CPU,
whatever device wrote it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Experiment
from .checkpoint_header import SAFETENSORS_SUFFIX, diagnose_file

if TYPE_CHECKING:
    from torch import Tensor, nn

CHECKPOINT_FORMAT = 2
"""Newest ``amt_format`` this version reads and the one it writes; older ones are read as well."""
WEIGHTS_PREFIX = "model."
"""Beginning of the names of the network's weights in ``state_dict``."""
TRAINED_WEIGHTS = "current_model_state"
"""Key of the weights that training goes on with, where ``state_dict`` is their moving average (format 2)."""
AVERAGED_WEIGHTS = "average_model_state"
"""Key of the moving average while a run is resumed; stands in no file."""
RL_START_WEIGHTS = "rl_start_state"
"""Key of the weights that the KL term of the REINFORCE stage holds on to."""
_WRAPPERS = ("module.", "_orig_mod.", "_forward_module.")
# What DDP, torch.compile and Fabric put before or inside the names.


def read_checkpoint(path: str | os.PathLike[str], *, mmap: bool = False) -> dict[str, Any]:
    """The contents of a checkpoint file; tensors on the CPU; only tensors and plain types are read.

    Args:
        path: the file.
        mmap: map the tensors instead of reading them, so that those which are not used cost nothing. For
            tensors that are copied at once: writing into a mapped file ends the process.

    Raises:
        ValueError: one sentence that names the file and what is wrong with it.
    """
    path = Path(path)
    problem = diagnose_file(path)
    if problem is not None:
        raise ValueError(f"{path} {problem}")
    loaded: Any
    if path.suffix == SAFETENSORS_SUFFIX:
        from .exporting.weights import read_weights

        loaded = read_weights(path)
    else:
        loaded = _read_archive(path, mmap)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path} holds a {type(loaded).__name__}, not a checkpoint's dictionary")
    version = loaded.get("amt_format", CHECKPOINT_FORMAT)
    if not isinstance(version, int) or version > CHECKPOINT_FORMAT:
        raise ValueError(
            f"{path} has checkpoint format {version}; this version reads up to "
            f"{CHECKPOINT_FORMAT}: update amt"
        )
    return loaded


def _read_archive(path: Path, mmap: bool) -> Any:
    """What a file of ``torch.save`` holds."""
    import torch

    try:
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        detail = next((line.strip() for line in str(error).splitlines() if "GLOBAL" in line), "")
        raise ValueError(
            f"{path} holds Python objects besides tensors and plain values and is not loaded, because "
            f"that could run code; it was not written by this library. {detail}".rstrip()
        ) from error
    except Exception as error:  # bytes that changed inside the archive can lead to any
        detail = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is damaged and cannot be read ({detail})") from error


def experiment_of(checkpoint: Mapping[str, Any], path: str | Path) -> Experiment:
    """The configuration that a checkpoint holds.

    Raises:
        ValueError: it holds none, or one that this version cannot read.
    """
    text = checkpoint.get("experiment")
    if not isinstance(text, str):
        raise ValueError(f"{path} does not hold its configuration, so no model can be built from it")
    try:
        return Experiment.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def model_weights(checkpoint: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """The network's weights of a checkpoint under their own names (without ``model.``).

    Names that DDP or torch.compile wrapped (``module.``, ``_orig_mod.``) are unwrapped.

    Raises:
        ValueError: when the file has no weights of a network of this library.
    """
    state = checkpoint.get("state_dict")
    if not isinstance(state, Mapping) or not state:
        raise ValueError(f"{path} has no weights (no state_dict)")
    weights: dict[str, Tensor] = {}
    for name, value in state.items():
        name = unwrapped_name(name)
        if name.startswith(WEIGHTS_PREFIX):
            weights[name.removeprefix(WEIGHTS_PREFIX)] = value
    if not weights:
        raise ValueError(
            f"{path}: none of its {len(state)} weights belongs to a model of amt "
            f"(names start with {next(iter(state))!r}, expected {WEIGHTS_PREFIX!r})"
        )
    return weights


def unwrapped_name(name: str) -> str:
    """The name of a weight without what DDP, torch.compile or Fabric put around it."""
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper).replace(f".{wrapper}", ".")
    return name


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> int:
    """Load all weights of a network; anything missing or of another shape is refused.

    Weights of the file that the network does not have are refused as well: the network was then built
    with other options than the ones the file was trained with.

    Returns:
        The number of tensors loaded.
    """
    own = model.state_dict()
    missing = [name for name in own if name not in weights]
    unexpected = [name for name in weights if name not in own]
    shapes = [
        f"{name} {tuple(weights[name].shape)} in the file, {tuple(value.shape)} in the model"
        for name, value in own.items()
        if name in weights and weights[name].shape != value.shape
    ]
    if missing or unexpected or shapes:
        found = [
            f"{len(items)} {what} ({', '.join(items[:3])}{', ...' if len(items) > 3 else ''})"
            for what, items in (("missing", missing), ("unknown", unexpected), ("of another shape", shapes))
            if items
        ]
        fitting = len(own) - len(missing) - len(shapes)
        raise ValueError(
            f"{path}: {fitting} of {len(own)} weights fit the model, {'; '.join(found)}. "
            "The file was trained with other model options than these"
        )
    model.load_state_dict(dict(weights), strict=True)
    return len(own)
