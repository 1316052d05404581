"""Networks of some thousand weights for tests of every room."""

from __future__ import annotations

from typing import Any

from amt.config import (
    AudioConfig,
    Experiment,
    ModelConfig,
    PerceiverTFConfig,
    PreEncoderConfig,
    T5DecoderConfig,
)

HALF_SECOND = AudioConfig(codec="logspec", segment_samples=8000, hop_length=300)
"""Segments of half a second."""


def small_encoder(width: int = 16, **changes: Any) -> PerceiverTFConfig:
    """One block with a layer of each kind, all widths the same."""
    plain: dict[str, Any] = {
        "num_latents": 2,
        "d_latent": width,
        "d_model": width,
        "qk_channels": width,
        "v_channels": width,
        "num_heads": 2,
        "num_blocks": 1,
        "num_local_layers": 1,
        "num_temporal_layers": 1,
    }
    return PerceiverTFConfig(**plain | changes)


def small_model(
    decoder: T5DecoderConfig,
    encoder: PerceiverTFConfig | None = None,
    pre_encoder: PreEncoderConfig | None = None,
    **changes: Any,
) -> ModelConfig:
    """A Perceiver-TF behind strided convolutions, a linear projection, and that decoder."""
    return ModelConfig(
        "perceiver-tf",
        pre_encoder=pre_encoder or PreEncoderConfig(type="strided", out_channels=8, time_stride=2),
        encoder=encoder or small_encoder(),
        decoder=decoder,
        **{"pre_decoder_type": "linear"} | changes,
    )


def small_experiment(decoder: T5DecoderConfig, **changes: Any) -> Experiment:
    """A run of such a network on segments of half a second, 13 classes in one stream."""
    plain: dict[str, Any] = {
        "exp_id": "tiny",
        "task": "mc13_fsingle",
        "event_length": 48,
        "audio": HALF_SECOND,
        "model": small_model(decoder),
    }
    return Experiment(**plain | changes)
