"""What network a published checkpoint is of: its numbers out of names and shapes of the weights.

Where shapes say nothing (activation, number of heads, a residual) the file's own settings are asked, then the
published configuration it looks like.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ...config import Experiment
from ...config.leaves import leaves as leaves_of
from ...config.published_models import PUBLISHED_MODELS
from ..layers.rotary import frequencies
from .foreign_file import ForeignCheckpoint
from .shapes import (
    Leaves,
    Weights,
    audio_leaves,
    conformer_leaves,
    decoder_leaves,
    dropout_leaves,
    perceiver_leaves,
    pre_decoder_leaves,
    pre_encoder_leaves,
    t5_encoder_leaves,
)

_ENCODERS = {
    "encoder.latent_array.latents": "perceiver-tf",
    "encoder.encoder.block.0.layer.0.SelfAttention.q.weight": "t5",
    "encoder.layers.0.self_attn.linear_q.weight": "conformer",
}


def network_leaves(foreign: ForeignCheckpoint, layout: str | None = None) -> tuple[Leaves, list[str]]:
    """The leaves of ``audio.`` and ``model.`` that make the network of a published checkpoint.

    Args:
        foreign: the file.
        layout: name of the published configuration that settles what neither shapes nor settings say; None
            takes the one that looks alike.

    Returns:
        The leaves, and one sentence for each that had to be assumed.

    Raises:
        ValueError: when it is no YourMT3 checkpoint, or lacks weights.
    """
    weights = Weights(foreign)
    kinds = [kind for name, kind in _ENCODERS.items() if name in weights]
    if not kinds or "embed_tokens.weight" not in weights:
        raise ValueError(
            f"{foreign.path} is no YourMT3 checkpoint: its weights are called "
            f"{', '.join(sorted(weights)[:3])}"
        )
    kind = kinds[0]
    leaves = audio_leaves(foreign, weights) | {"model.encoder_type": kind}
    leaves |= decoder_leaves(foreign, weights)
    if kind == "perceiver-tf":
        leaves |= (
            pre_encoder_leaves(foreign, weights)
            | pre_decoder_leaves(foreign, weights)
            | perceiver_leaves(weights)
        )
    else:
        leaves |= {"model.pre_encoder.type": "none", "model.pre_decoder_type": "none"}
        leaves |= t5_encoder_leaves(foreign, weights) if kind == "t5" else conformer_leaves(foreign, weights)
    leaves |= dropout_leaves(foreign, kind)
    assumed = []
    if not isinstance(foreign.setting("audio_cfg"), Mapping):
        assumed.append(f"the file does not say its hop length: taken as {leaves['audio.hop_length']}")
    if kind != "perceiver-tf":
        return leaves, assumed
    more, more_assumed = _settled(foreign, leaves, layout)
    leaves |= more
    return leaves | _quirks(weights, leaves), assumed + more_assumed


_SETTINGS = {
    "num_heads": ("num_self_attention_heads", 8),
    "hidden_act": ("hidden_act", "gelu"),
    "sca_query_residual": ("sca_use_query_residual", False),
    "attention_to_channel": ("attention_to_channel", True),
    "moe_topk": ("moe_topk", 2),
    "rope_apply_to_keys": ("rope_apply_to_keys", False),
}
"""Fields of the encoder that shapes do not show: their name in the file's settings, the published default."""


def _settled(foreign: ForeignCheckpoint, leaves: Leaves, layout: str | None) -> tuple[Leaves, list[str]]:
    """Values of ``_SETTINGS`` from the file's settings, else from a published configuration; and a sentence
    when that one was not named but looks alike."""
    settings = foreign.setting("model_cfg", "encoder", "perceiver-tf")
    alike = layout or similar_model(leaves)
    row = PUBLISHED_MODELS[alike] if alike is not None else {}
    known: Leaves = {}
    for name, (theirs, default) in _SETTINGS.items():
        leaf = f"model.encoder.{name}"
        if isinstance(settings, Mapping):
            value = settings.get(theirs)
            known[leaf] = value if type(value) is type(default) else default
        else:
            known[leaf] = row.get(leaf, default)
    silent = leaves["model.encoder.position_encoding"] == "none"
    if silent and isinstance(settings, Mapping) and settings.get("position_encoding_type") == "alibi":
        known["model.encoder.position_encoding"] = "alibi"  # it has no weights
    if leaves["model.encoder.ff_type"] != "moe":
        del known["model.encoder.moe_topk"]
    if leaves["model.encoder.position_encoding"] != "rope":
        del known["model.encoder.rope_apply_to_keys"]
    if layout is not None or isinstance(settings, Mapping):
        return known, []
    values = ", ".join(f"{leaf.rpartition('.')[2]} {value}" for leaf, value in known.items())
    return known, [f"the file does not say {values}: taken from {alike or 'the published defaults'}"]


def _quirks(weights: Weights, leaves: Leaves) -> Leaves:
    """Rotary width and kinds, and the scale of alibi, as the published code has them."""
    heads = leaves["model.encoder.num_heads"]
    head_width = leaves["model.encoder.qk_channels"] // heads
    kind = leaves["model.encoder.position_encoding"]
    if kind in ("alibi", "alibit"):
        return {"model.encoder.alibi_scale": 1.0 / math.sqrt(head_width)}
    if kind != "rope":
        return {}
    freqs = [weights[f"encoder.rotary_emb_{part}.freqs"] for part in ("sca", "latent", "temporal")]
    turned = 2 * len(freqs[0])
    partial = turned == heads // 2
    return {
        "model.encoder.rope_width": 2 * turned if partial else turned,
        "model.encoder.rope_partial": partial,
        "model.encoder.rope_types": "".join(_rope_type(value.float()) for value in freqs),
    }


def _rope_type(freqs: Tensor) -> str:
    return min("pl", key=lambda kind: float((frequencies(kind, 2 * len(freqs)) - freqs).abs().max()))


def similar_model(leaves: Mapping[str, Any]) -> str | None:
    """The published model with parts of the same kinds that agrees in most numbers; None: there is none."""
    fitting = [name for name in PUBLISHED_MODELS if not kinds_differing(leaves, name)]

    def agreement(name: str) -> int:
        return sum(_value(PUBLISHED_MODELS[name], leaf) == value for leaf, value in leaves.items())

    return max(fitting, key=agreement, default=None)


def check_kind(path: Path, leaves: Mapping[str, Any], layout: str) -> None:
    """Refuse a network that is of another kind than a published model.

    Raises:
        ValueError: names the parts, and the published model that it looks like.
    """
    wrong = kinds_differing(leaves, layout)
    if wrong:
        phrases = [f"{name.removeprefix('model.')} is {leaves.get(name, 'another')}" for name in wrong]
        other = similar_model(leaves)
        hint = f"; it looks like {other}" if other is not None else ""
        raise ValueError(f"{path} is no {layout}: {', '.join(phrases)}{hint}")


def kinds_differing(leaves: Mapping[str, Any], layout: str) -> list[str]:
    """Leaves in which a network is of another kind than a published model; sizes may differ."""
    row = PUBLISHED_MODELS[layout]
    names = ["audio.codec", *_KINDS]
    if _value(row, "model.encoder_type") == "perceiver-tf":
        names += _PERCEIVER_KINDS
    return [name for name in names if _value(leaves, name) != _value(row, name)]


_KINDS = ("model.encoder_type", "model.decoder_type", "model.pre_encoder.type", "model.pre_decoder_type")
_PERCEIVER_KINDS = ("model.encoder.ff_type", "model.encoder.position_encoding", "model.encoder.norm_type")


def _value(leaves: Mapping[str, Any], name: str) -> Any:
    """The value of a leaf, its default when it is not named."""
    return leaves[name] if name in leaves else _defaults()[name]


@functools.cache
def _defaults() -> Leaves:
    return dict(leaves_of(Experiment()))
