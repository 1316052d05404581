"""Warm start: another run's weights as the start of this one, with a report of what fitted."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ..model.checkpoint_file import model_weights, read_checkpoint

_MAX_NAMED = 8
CORE_PARTS = ("encoder", "decoder")
"""Parts of the network that a warm start must touch."""


def load_warm_start(model: nn.Module, path: Path) -> list[str]:
    """Copy the weights that fit from a checkpoint into ``model``.

    Returns:
        The report, a line each: what was loaded, missing in the file, unexpected in it, of another shape.

    Raises:
        ValueError: when the file cannot be read, or the encoder or the decoder would stay untouched.
    """
    weights = model_weights(read_checkpoint(path, mmap=True), path)
    own = model.state_dict()
    fitting = {name for name, value in own.items() if name in weights and weights[name].shape == value.shape}
    shapes = [
        f"{name} {tuple(weights[name].shape)} -> {tuple(own[name].shape)}"
        for name in own
        if name in weights and name not in fitting
    ]
    untouched = [
        part
        for part in CORE_PARTS
        if any(name.startswith(f"{part}.") for name in own)
        and not any(name.startswith(f"{part}.") for name in fitting)
    ]
    report = [f"warm start from {path}: {len(fitting)} of {len(own)} tensors loaded"]
    for label, names in (
        ("missing in the file", [name for name in own if name not in weights]),
        ("unexpected in the file", [name for name in weights if name not in own]),
        ("of another shape, left as they are", shapes),
    ):
        if names:
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            report.append(f"  {len(names)} {label}: {', '.join(names[:_MAX_NAMED])}{more}")
    if untouched:
        raise ValueError(
            f"--init-ckpt {path}: no weight of the {' and the '.join(untouched)} fits this model, so this "
            "would be no warm start; give the model options the file was trained with. "
            + " ".join(report[1:])
        )
    with torch.no_grad():
        model.load_state_dict({name: weights[name] for name in fitting}, strict=False)
    return report
