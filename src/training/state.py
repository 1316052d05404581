"""What a checkpoint holds besides the weights, and how it is made fit to go on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy
from pytorch_lightning.__version__ import version as lightning_version
from torch.optim import Optimizer

from ..config import Experiment
from ..model.checkpoint_content import description
from ..model.checkpoint_file import AVERAGED_WEIGHTS, CHECKPOINT_FORMAT, TRAINED_WEIGHTS
from ..optim import StepSchedule

_SETTINGS = ("params", "weight_decay", "betas", "lr_scale", "relative_step", "fused", "foreach")
"""Keys of optimizer groups that follow configuration and hardware; others are the optimizer's state."""

LICENCE = (
    "These weights were made by the user of amt (Apache-2.0). The rights in the training data decide what "
    "they may be used for."
)


def checkpoint_extras(experiment: Experiment) -> dict[str, Any]:
    """Format, configuration, versions, task and licence note, as plain types."""
    libraries = {"pytorch_lightning": str(lightning_version), "numpy": str(numpy.__version__)}
    return description(experiment, LICENCE, libraries)


def upgrade_checkpoint(checkpoint: dict[str, Any]) -> None:
    """Bring the training state of a file of an older format to the current one, in place.

    Format 1 had no moving average of the weights and did not say where the run was to end.
    """
    if int(checkpoint.get("amt_format", 1)) < 2:
        defaults = {"num_dropped_steps": 0, "epoch_loss": [0.0, 0], "end_step": None}
        checkpoint["amt_state"] = {**defaults, **checkpoint["amt_state"]}
    checkpoint["amt_format"] = CHECKPOINT_FORMAT


def validation_is_missing(checkpoint: Mapping[str, Any], val_interval: int) -> bool:
    """Whether the validation due at a checkpoint's step was not finished: at the interval, or at the step
    where the run was to end."""
    state = checkpoint["amt_state"]
    step = int(checkpoint["global_step"])
    due = step % val_interval == 0 or step == state.get("end_step")
    return due and int(state["last_validated_step"]) < step


def take_trained_weights(checkpoint: dict[str, Any], *, keeps_average: bool) -> str:
    """Where ``state_dict`` is the moving average, put the trained weights there and the average beside them.

    Returns:
        What to say, or "".
    """
    if TRAINED_WEIGHTS not in checkpoint:
        return ""
    average = checkpoint["state_dict"]
    checkpoint["state_dict"] = checkpoint.pop(TRAINED_WEIGHTS)
    if not keeps_average:
        return "the checkpoint's moving average of the weights ends here (--ema 0)"
    checkpoint[AVERAGED_WEIGHTS] = average
    return ""


def adopt_optimizer(
    checkpoint: dict[str, Any], experiment: Experiment, optimizer: Optimizer, schedule: StepSchedule
) -> str:
    """Give the saved state of optimizer and schedule the settings of the new start, in place.

    They differ from the saved ones only with ``--override-optim`` or on other hardware. Moments are kept when
    optimizer and parameter groups are the same.

    Returns:
        What to say, or "".
    """
    saved = json.loads(checkpoint["experiment"])
    [old], new = checkpoint["optimizer_states"], optimizer.state_dict()
    same = saved["OPTIMIZER"]["name"] == experiment.optimizer.name and [
        len(group["params"]) for group in old["param_groups"]
    ] == [len(group["params"]) for group in new["param_groups"]]
    if same:
        groups = [
            {**fresh, **kept, **{key: fresh[key] for key in _SETTINGS if key in fresh}}
            for kept, fresh in zip(old["param_groups"], new["param_groups"], strict=True)
        ]
        checkpoint["optimizer_states"] = [{"state": old["state"], "param_groups": groups}]
    else:
        checkpoint["optimizer_states"] = [new]
    [position] = checkpoint["lr_schedulers"]
    if saved["LR_SCHEDULE"]["name"] != experiment.lr_schedule.name:
        position = {**schedule.state_dict(), "num_steps": int(checkpoint["global_step"])}
        checkpoint["lr_schedulers"] = [position]
    if same:
        return ""
    return "optimizer: its moments start anew, since it or what it trains is not the checkpoint's"


def settle_loops(checkpoint: dict[str, Any], accumulate: int) -> None:
    """Rewrite Lightning's loop counters so that training goes on after the checkpoint's step.

    Lightning infers from its counters where a run was interrupted and skips or repeats parts of an epoch
    accordingly. A checkpoint of ours always stands at the end of a step of the one endless epoch, and
    which validation is due is our own knowledge, so the counters are made to say just that. The number of
    batches follows the accumulation of the new start.

    Args:
        checkpoint: loaded checkpoint, changed in place.
        accumulate: batches per step from now on.
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


def _set_counts(progress: dict[str, Any], count: int) -> None:
    for part in ("total", "current"):
        for key in progress[part]:
            progress[part][key] = count
