"""A tiny network and its checkpoint, made once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.config import (
    AudioConfig,
    BatchSizes,
    Experiment,
    ModelConfig,
    PerceiverTFConfig,
    PreEncoderConfig,
    T5DecoderConfig,
)
from amt.inference import SongTranscriber, untrained_transcriber

TINY = Experiment(
    exp_id="tiny",
    task="mc13_fsingle",
    event_length=48,
    audio=AudioConfig(codec="logspec", segment_samples=8000, hop_length=300),
    model=ModelConfig(
        pre_encoder=PreEncoderConfig(type="strided", out_channels=8, time_stride=2),
        encoder=PerceiverTFConfig(
            num_latents=2,
            d_latent=16,
            d_model=16,
            qk_channels=16,
            v_channels=16,
            num_heads=2,
            num_blocks=1,
            num_local_layers=1,
            num_temporal_layers=1,
        ),
        decoder=T5DecoderConfig(d_model=16, num_layers=1, num_heads=2, d_kv=8),
    ),
    bsz=BatchSizes(sub=4, local=4, validation=4, test=4),
)


@pytest.fixture(scope="session")
def tiny() -> SongTranscriber:
    return untrained_transcriber(TINY, seed=1, device="cpu")


@pytest.fixture(scope="session")
def checkpoint(tiny: SongTranscriber) -> dict[str, Any]:
    """What a training run would save."""
    return {
        "amt_format": 1,
        "experiment": tiny.experiment.to_json(),
        "state_dict": {f"model.{name}": value for name, value in tiny.model.state_dict().items()},
        "global_step": 7,
    }


@pytest.fixture(scope="session")
def log_dir(checkpoint: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with the tiny checkpoint as ``ymt3/tiny@last.ckpt``."""
    root = tmp_path_factory.mktemp("logs é")
    folder = root / "ymt3" / "tiny" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(checkpoint, folder / "last.ckpt")
    return root


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def other_size(tiny: SongTranscriber) -> Experiment:
    """The same run with another number of latents."""
    model = tiny.experiment.model
    return replace(tiny.experiment, model=replace(model, encoder=replace(model.encoder, num_latents=3)))
