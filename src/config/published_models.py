"""Published YourMT3+ configurations as named rows: ``--model NAME`` and the layouts of ``amt-convert``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .names import unknown_name

_TRAINED_SCALE = 1 / 512
"""Published models divide the logits by the decoder's width: once by its root in the head, once more in
training. Greedy choice is the same with one scale for both."""

_MEL: dict[str, Any] = {
    "task": "mt3_full_plus",
    "event_length": 1024,
    "audio.codec": "melspec",
    "audio.hop_length": 128,
    "audio.n_mels": 512,
    "audio.segment_samples": 32767,
    "model.decoder_type": "t5",
    "model.pre_encoder.type": "none",
    "model.pre_decoder_type": "none",
    "model.logit_scale": _TRAINED_SCALE,
}
_PERCEIVER: dict[str, Any] = {
    "task": "mt3_full_plus",
    "event_length": 1024,
    "audio.codec": "spec",
    "audio.hop_length": 300,
    "audio.segment_samples": 32767,
    "model.encoder_type": "perceiver-tf",
    "model.decoder_type": "t5",
    "model.pre_encoder.type": "conv",
    "model.pre_decoder_type": "linear",
    "model.encoder.num_latents": 24,
    "model.encoder.attention_to_channel": True,
    "model.logit_scale": _TRAINED_SCALE,
}
_MULTI: dict[str, Any] = {
    **_PERCEIVER,
    "task": "mc13_full_plus_256",
    "model.decoder_type": "multi-t5",
    "model.pre_decoder_type": "mc_shared_linear",
    "model.encoder.num_latents": 26,
}
_ROWS: dict[str, dict[str, Any]] = {
    "ymt3plus": {**_MEL, "model.encoder_type": "t5"},
    "yptf_single": _PERCEIVER,
    "yptf_multi": _MULTI,
    "yptf_moe_multi": {
        **_MULTI,
        "model.encoder.sca_query_residual": True,
        "model.encoder.ff_type": "moe",
        "model.encoder.ff_widening": 4,
        "model.encoder.moe_num_experts": 8,
        "model.encoder.moe_topk": 2,
        "model.encoder.hidden_act": "silu",
        "model.encoder.position_encoding": "rope",
        "model.encoder.rope_partial": True,
        "model.encoder.rope_width": 8,
    },
    "conformer_t5": {**_MEL, "model.encoder_type": "conformer"},
    "ptf_t5": {
        **_PERCEIVER,
        "event_length": 2048,
        "audio.segment_samples": 65534,
        "model.encoder.num_latents": 26,
        "model.encoder.sca_query_residual": True,
    },
}

PUBLISHED_MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: MappingProxyType(row) for name, row in _ROWS.items()}
)
"""Leaves of :class:`~.experiment.Experiment` (dotted, lower case) and their values, by name; what a row does
not name has its default. ``ptf_t5`` is a fork's own: Perceiver-TF and T5 on segments of 4.096 s."""

MODEL_LEAVES = ("task", "event_length", "audio.", "model.")
"""Leaves, or beginnings of leaves, that a row settles, those it does not name included."""


def get_published_model(name: str) -> Mapping[str, Any]:
    """The values of the published model ``name``; an unknown name is an error that lists the known ones."""
    if name not in PUBLISHED_MODELS:
        raise unknown_name("published model", name, PUBLISHED_MODELS)
    return PUBLISHED_MODELS[name]
