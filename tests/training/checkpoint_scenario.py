"""A tiny run with the real Trainer and the real checkpoint callback, for the tests and their subprocesses.

As a program: ``checkpoint_scenario.py kills FOLDER COUNT SEED`` kills COUNT runs at random instants and
checks the files after each; ``checkpoint_scenario.py ddp FOLDER`` runs two ranks.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from amt.config import CheckpointConfig
from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import diagnose_file, read_header, read_sidecar
from amt.training.callbacks.checkpoint import CustomModelCheckpoint
from amt.training.checkpoint_io import AtomicCheckpointIO

MONITOR = "validation/macro_onset_f"


class TinyModule(pl.LightningModule):
    """One linear layer; its validation logs the scores it is told to."""

    def __init__(
        self, scores: dict[int, float | None] | None = None, width: int = 4, extra: str = ""
    ) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, width)
        self.scores = scores
        self.extra = extra
        self.saving_allowed = True
        self.validated_at: list[int] = []
        self.losses: list[float] = []
        self.signal_at: int | None = None

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.layer(batch[0]).square().mean()
        self.losses.append(float(loss.detach()))
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.signal_at is not None and self.global_step == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
        callback = self.trainer.checkpoint_callback
        if callback.signal_flag():
            callback.save_and_stop(self.trainer)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def on_validation_epoch_end(self) -> None:
        self.validated_at.append(self.global_step)
        score = 0.5 if self.scores is None else self.scores.get(self.global_step)
        if score is not None:
            self.log(MONITOR, score)
        if self.extra:
            self.log(self.extra, 0.1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class TwoOptimizers(TinyModule):
    """Manual optimisation with two optimizers that both step on every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.second = torch.nn.Linear(4, 4)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer, layer in zip(self.optimizers(), (self.layer, self.second), strict=True):
            optimizer.zero_grad()
            self.manual_backward(layer(batch[0]).square().mean())
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(layer.parameters(), lr=1e-3) for layer in (self.layer, self.second)]


def loader(batches: int) -> DataLoader[Any]:
    """``batches`` batches of two samples."""
    data = torch.arange(batches * 8, dtype=torch.float32).reshape(batches * 2, 4) / (batches * 8)
    return DataLoader(TensorDataset(data), batch_size=2)


def fit(
    folder: Path,
    module: pl.LightningModule,
    max_steps: int,
    *,
    config: CheckpointConfig | None = None,
    vit: int = 1,
    batches: int = 50,
    resume: Path | None = None,
    fault: str = "",
    io: AtomicCheckpointIO | None = None,
    quiet: bool = True,
    **changes: Any,
) -> CustomModelCheckpoint:
    """Train ``module`` to ``max_steps`` with checkpoints in ``folder/checkpoints``."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    callback = CustomModelCheckpoint(config or CheckpointConfig(), folder / "checkpoints")
    options: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "max_steps": max_steps,
        "max_epochs": -1,
        "val_check_interval": vit,
        "check_val_every_n_epoch": None,
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        "callbacks": [callback],
        "plugins": [io or AtomicCheckpointIO(fault)],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always")
        trainer = pl.Trainer(**(options | changes))
        trainer.fit(module, loader(batches), loader(2), ckpt_path=resume)
    return callback


def kills(folder: Path, count: int, seed: int) -> None:
    """Kill ``count`` runs of one experiment at random instants; every file must stay readable."""
    rng = random.Random(seed)
    last = folder / "checkpoints" / "last.ckpt"
    config = CheckpointConfig(save_top_k=2, save_every_n_train_steps=1, save_before_val=True)
    steps: list[int] = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            scores = {step: math.sin(step) for step in range(1, 10_000)}
            resume = last if last.exists() else None
            fit(folder, TinyModule(scores, width=40_000), 9_999, config=config, vit=2, resume=resume)
            os._exit(1)
        deadline = time.monotonic() + 120
        started = (read_header(last).step or 0) if last.exists() else 0
        goal = started + rng.randint(1, 4)
        while time.monotonic() < deadline:
            header = read_header(last) if last.exists() else None
            if header is not None and (header.step or 0) >= goal:
                break
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert diagnose_file(last) is None
        step = read_checkpoint(last)["global_step"]
        assert step > started, f"the run did not go on: step {step} after {started}"
        for path in last.parent.glob("*.ckpt"):
            assert diagnose_file(path) is None, path
            read_checkpoint(path)
            if path.name.startswith(("preval-step=", "step=")):
                path.unlink()  # kept by the run; here they would only cost time
        kept = [row[0] for row in read_checkpoint(last)["callbacks"]["CustomModelCheckpoint"]["ranking"]]
        best = [path.name for path in last.parent.glob("epoch=*.ckpt")]
        assert len(best) <= 3, best  # two, and one that a kill kept from being removed
        assert set(kept) - set(best) <= {name for name in kept if f"-step={step}-" in name}, (kept, best)
        sidecar = read_sidecar(last)
        assert sidecar is None or sidecar["step"] == step
        steps.append(step)
    print(json.dumps(steps))


def ddp(folder: Path) -> None:
    """Two ranks: save, fail once on a full disk at rank 0, go on."""

    class FailsOnce(AtomicCheckpointIO):
        calls = 0

        def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
            self.calls += 1
            self.fault = "full-disk@save" if self.calls == 2 else ""
            super().save_checkpoint(checkpoint, path, storage_options)

    module = TinyModule({1: 0.1, 2: 0.2, 3: 0.3})
    callback = fit(
        folder, module, 3, io=FailsOnce(), strategy="ddp", devices=2, use_distributed_sampler=False, batches=3
    )
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(json.dumps({"ranking": callback.ranking, "error": callback.last_error}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "kills":
        kills(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        ddp(Path(sys.argv[2]))
