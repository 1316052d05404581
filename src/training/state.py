"""What a checkpoint holds besides the weights, and Lightning's counters brought to the end of a step."""

from __future__ import annotations

import dataclasses
import json
import platform
from typing import Any

import numpy
import torch
from pytorch_lightning.__version__ import version as lightning_version

from .. import __version__
from ..config import Experiment
from ..config.tasks import Task
from ..model.checkpoint_file import CHECKPOINT_FORMAT

LICENCE = (
    "These weights were made by the user of amt (Apache-2.0). The rights in the training data decide what "
    "they may be used for."
)


def checkpoint_extras(experiment: Experiment, task: Task) -> dict[str, Any]:
    """Format, configuration, versions, task and licence note, as plain types."""
    return {
        "amt_format": CHECKPOINT_FORMAT,
        "experiment": experiment.to_json(),
        "versions": {
            "amt": __version__,
            "torch": str(torch.__version__),
            "pytorch_lightning": str(lightning_version),
            "numpy": str(numpy.__version__),
            "python": platform.python_version(),
        },
        "task": json.dumps(dataclasses.asdict(task), ensure_ascii=False),
        "licence": LICENCE,
    }


def settle_loops(checkpoint: dict[str, Any], accumulate: int, *, fused: bool) -> None:
    """Rewrite Lightning's loop counters so that training goes on after the checkpoint's step.

    Lightning infers from its counters where a run was interrupted and skips or repeats parts of an epoch
    accordingly. A checkpoint of ours always stands at the end of a step of the one endless epoch, and
    which validation is due is our own knowledge, so the counters are made to say just that. The number of
    batches follows the accumulation of the new start.

    Args:
        checkpoint: loaded checkpoint, changed in place.
        accumulate: batches per step from now on.
        fused: kernels of the new start; the optimizer's groups carry those of the old one.
    """
    step = int(checkpoint["global_step"])
    loop = checkpoint["loops"]["fit_loop"]
    for name, count in (
        ("epoch_loop.batch_progress", step * accumulate),
        ("epoch_loop.scheduler_progress", step),
        ("epoch_loop.val_loop.batch_progress", 0),
    ):
        _set_counts(loop[name], count)
    loop["epoch_loop.batch_progress"]["is_last_batch"] = False
    loop["epoch_loop.val_loop.batch_progress"]["is_last_batch"] = False
    optimizer = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]
    _set_counts(optimizer["step"], step)
    _set_counts(optimizer["zero_grad"], step)
    loop["epoch_loop.state_dict"]["_batches_that_stepped"] = step
    epoch = loop["epoch_progress"]
    for part in ("total", "current"):  # begun, not finished: Lightning then does not begin another
        epoch[part] |= {"ready": 1, "started": 1, "processed": 0, "completed": 0}
    for state in checkpoint.get("optimizer_states", []):
        for group in state["param_groups"]:
            if "fused" in group:
                group["fused"], group["foreach"] = (True, None) if fused else (None, True)


def _set_counts(progress: dict[str, Any], count: int) -> None:
    for part in ("total", "current"):
        for key in progress[part]:
            progress[part][key] = count
