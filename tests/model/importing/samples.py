"""Published key lists, and files made from them, for the tests of importing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import PUBLISHED_MODELS
from amt.model.importing.computed import computed_tensors
from amt.model.importing.convert import blank_network
from amt.model.importing.export import published_settings, published_state

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
STATE_KEYS: dict[str, list[tuple[str, list[int], str]]] = json.loads(
    gzip.decompress((GOLDEN / "state_keys.json.gz").read_bytes())
)

SMALL = {
    "perceiver-tf": {
        "model.pre_encoder.out_channels": 8,
        "model.encoder.d_latent": 16,
        "model.encoder.d_model": 16,
        "model.encoder.qk_channels": 32,
        "model.encoder.v_channels": 16,
        "model.encoder.num_blocks": 2,
        "model.encoder.num_local_layers": 1,
    },
    "t5": {
        "audio.n_mels": 48,
        "model.t5_encoder.num_heads": 2,
        "model.t5_encoder.d_kv": 8,
        "model.t5_encoder.num_layers": 2,
        "model.t5_encoder.d_ff": 48,
    },
    "conformer": {
        "audio.n_mels": 48,
        "model.conformer.num_heads": 4,
        "model.conformer.num_layers": 2,
        "model.conformer.d_ff": 48,
        "model.conformer.conv_kernel": 5,
    },
}


def published(layout: str, **changes: Any) -> Experiment:
    """The configuration of a published model, with other leaves (``__`` for a dot)."""
    return replace_leaves(
        Experiment(),
        PUBLISHED_MODELS[layout] | {name.replace("__", "."): value for name, value in changes.items()},
    )


def small(layout: str, **changes: Any) -> Experiment:
    """A published model with small numbers."""
    sizes = {
        "event_length": 64,
        "model.decoder.d_model": 48,
        "model.decoder.num_heads": 2,
        "model.decoder.d_kv": 8,
        "model.decoder.num_layers": 2,
        "model.logit_scale": 1 / 48,
    }
    encoder = PUBLISHED_MODELS[layout]["model.encoder_type"]
    leaves = PUBLISHED_MODELS[layout] | sizes | SMALL[encoder]
    leaves = leaves | {name.replace("__", "."): value for name, value in changes.items()}
    return replace_leaves(Experiment(), leaves)


def full_state(layout: str) -> dict[str, Tensor]:
    """A state dict with the published names and shapes; each learnt tensor is one number, another for each,
    so that 45 million numbers need no memory."""
    state: dict[str, Tensor] = {}
    for number, (name, shape, dtype) in enumerate(STATE_KEYS[layout], 1):
        kind = getattr(torch, dtype)
        state[name] = torch.tensor(number if kind == torch.int64 else number / 1000, dtype=kind).expand(shape)
    return state | computed_tensors(published(layout))


def random_state(experiment: Experiment, seed: int = 0) -> dict[str, Tensor]:
    """The published state dict of a network with random weights."""
    torch.manual_seed(seed)
    model = blank_network(experiment)
    weights = {
        name: torch.rand_like(value) if value.is_floating_point() else value + 3
        for name, value in model.state_dict().items()
    }
    return published_state(weights, experiment, Path("test"))


def lightning_file(
    path: Path, state: Mapping[str, Tensor], experiment: Experiment | None = None, **more: Any
) -> Path:
    """A file as Lightning writes it, with the settings of the published code when an experiment is given."""
    content: dict[str, Any] = {
        "epoch": 3,
        "global_step": 1234,
        "pytorch-lightning_version": "2.0.0",
        "state_dict": dict(state),
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": []}],
    }
    if experiment is not None:
        content["hyper_parameters"] = published_settings(experiment)
    torch.save(content | more, path)
    return path
