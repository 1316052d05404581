"""``--pitch-method device``: the loaders leave the shift to the module, which does it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer
from amt.training.module import TranscriptionModule


def test_a_batch_is_shifted_on_its_way_to_the_device(tiny: Any, sines: Path) -> None:
    shift = {"augmentation.pitch_shift_range": [3.0, 3.0], "augmentation.pitch_shift_method": "device"}
    experiment = tiny.experiment(**shift)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    batch = next(iter(TranscriptionData(experiment, tokenizer, sines).train_dataloader()))
    assert batch.moving is not None
    assert batch.speeds is not None
    assert set(batch.speeds.tolist()) <= {1.0, torch.tensor(2 ** (3 / 12)).item()}
    module = TranscriptionModule(experiment, tokenizer)
    moved = module.transfer_batch_to_device(batch, torch.device("cpu"), 0)
    assert moved.moving is None
    assert moved.audio.shape == batch.audio.shape
    assert not torch.equal(moved.audio, batch.audio)
    assert torch.isfinite(module.training_step(moved, 0))
    again = module.transfer_batch_to_device(batch, torch.device("cpu"), 0)
    torch.testing.assert_close(again.audio, moved.audio, rtol=0, atol=0)
