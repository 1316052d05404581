"""A moving average of the weights, which validation and checkpoints use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ...model.checkpoint_file import AVERAGED_WEIGHTS, TRAINED_WEIGHTS, WEIGHTS_PREFIX


class WeightAverage(Callback):
    """Exponential moving average of all weights and running statistics of ``pl_module.model`` (``--ema``).

    After each step the average becomes ``d * average + (1 - d) * weights`` with ``d`` the smaller of
    ``decay`` and (1 + n) / (10 + n) after n steps, so that a young average is not ruled by the random start
    (the rule of TensorFlow's ``ExponentialMovingAverage``). Dropped steps do not count. While validation
    runs the network holds the average. In a checkpoint ``state_dict`` is the average, which is what predict
    and warm starts take, and the weights that training goes on with lie beside it, under the name that
    Lightning's ``WeightAveraging`` gives them. That callback itself averages copies of the whole module on
    the CPU and puts the weights back before the last windows of a validation are decoded.

    Put it before other callbacks that save.

    Args:
        decay: share of the old average that a step keeps.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        self._held: dict[str, Tensor] = {}
        """The average; while it is in the network, the weights that are trained."""
        self._in_network = False
        self._loaded: Mapping[str, Tensor] | None = None
        self._seen_step = -1

    @property
    def state_key(self) -> str:
        """Key of this callback's state in a checkpoint."""
        return type(self).__name__

    def state_dict(self) -> dict[str, Any]:
        """Plain values; the average itself is the checkpoint's ``state_dict``."""
        return {"num_updates": self.num_updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as saved."""
        self.num_updates = int(state_dict["num_updates"])

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take the average of the run that is resumed, where it has one."""
        self._loaded = checkpoint.get(AVERAGED_WEIGHTS)
        if self._loaded is None:
            rank_zero_info("--ema: the checkpoint has no moving average; it begins with its weights")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with the weights that all ranks have, on their device, or with the loaded average."""
        self._held = {name: value.clone() for name, value in _weights(pl_module).items()}
        self._in_network = False
        if self._loaded is not None:
            for name, value in self._held.items():
                value.copy_(self._loaded[WEIGHTS_PREFIX + name])
            self._loaded = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Steps are counted from here."""
        self._seen_step = pl_module.global_step

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take a finished step into the average."""
        step = pl_module.global_step
        if step == self._seen_step:  # inside an accumulation window
            return
        self._seen_step = step
        report = getattr(pl_module, "report", None)
        if report is not None and report.dropped:
            return
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        self.num_updates += 1
        floats: tuple[list[Tensor], list[Tensor]] = ([], [])
        for name, value in _weights(pl_module).items():
            if value.is_floating_point():
                floats[0].append(self._held[name])
                floats[1].append(value)
            else:
                self._held[name].copy_(value)
        torch._foreach_lerp_(floats[0], floats[1], 1.0 - decay)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The network holds the average."""
        if self._held and not trainer.sanity_checking:
            self._swap(pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The network holds the trained weights again; a validation that was left out has changed nothing."""
        if self._in_network:
            self._swap(pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """``state_dict`` becomes the average, the trained weights stand beside it."""
        held = {WEIGHTS_PREFIX + name: value for name, value in self._held.items()}
        if self._in_network:
            checkpoint[TRAINED_WEIGHTS] = {**checkpoint["state_dict"], **held}
        else:
            checkpoint[TRAINED_WEIGHTS] = checkpoint["state_dict"]
            checkpoint["state_dict"] = {**checkpoint["state_dict"], **held}

    @torch.no_grad()
    def _swap(self, pl_module: pl.LightningModule) -> None:
        for name, value in _weights(pl_module).items():
            kept = value.clone()
            value.copy_(self._held[name])
            self._held[name].copy_(kept)
        self._in_network = not self._in_network


def _weights(pl_module: pl.LightningModule) -> dict[str, Tensor]:
    """The network's tensors, not copied."""
    model = pl_module.model
    assert isinstance(model, torch.nn.Module)
    state: dict[str, Tensor] = model.state_dict()
    return state
