"""Named bundles of values: ``--recipe NAME`` (under flags and variables) and ``--augment PROFILE``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .names import unknown_name

_QUICKSTART: dict[str, Any] = {
    "task": "mc13_fsingle_vocal",
    "event_length": 256,
    "seed": 0,
    "data.presets": ("quickstart",),
    "audio.codec": "logspec",
    "audio.hop_length": 300,
    "audio.segment_samples": 24000,
    "model.encoder_type": "perceiver-tf",
    "model.decoder_type": "t5",
    "model.pre_decoder_type": "linear",
    "model.pre_encoder.type": "strided",
    "model.pre_encoder.out_channels": 48,
    "model.pre_encoder.time_stride": 2,
    "model.pre_encoder.harmonics": (0.5, 1.0, 2.0, 3.0, 4.0, 5.0),
    "model.encoder.num_latents": 4,
    "model.encoder.d_latent": 96,
    "model.encoder.d_model": 96,
    "model.encoder.qk_channels": 96,
    "model.encoder.v_channels": 96,
    "model.encoder.num_heads": 4,
    "model.encoder.num_blocks": 1,
    "model.encoder.num_local_layers": 1,
    "model.encoder.num_temporal_layers": 1,
    "model.encoder.attention_to_channel": False,
    "model.encoder.sca_feed_forward": True,
    "model.encoder.sca_query_residual": True,
    "model.encoder.ff_widening": 2,
    "model.encoder.norm_type": "rms_norm",
    "model.encoder.position_encoding": "sinusoidal",
    "model.encoder.dropout": 0.0,
    "model.encoder.init_std": 0.08,
    "model.decoder.d_model": 128,
    "model.decoder.num_layers": 2,
    "model.decoder.num_heads": 4,
    "model.decoder.d_kv": 32,
    "model.decoder.dropout": 0.0,
    "model.decoder.scaled_attention": True,
    "model.decoder.position_scale": 0.3,
    "model.memory_positions": "sinusoid",
    "model.memory_norm": True,
    "model.shift_embedding_init": "sinusoid",
    "model.frame_groups": ("voice",),
    "objective.frame_weight": 1.0,
    "objective.boundary_weight": 1.0,
    "objective.boundary_width": 2,
    "bsz.sub": 8,
    "bsz.local": 8,
    "bsz.validation": 64,
    "bsz.test": 64,
    "dataio.num_workers": 0,
    "augmentation.amp_range": (0.4, 1.5),
    "augmentation.noise_prob": 0.2,
    "augmentation.noise_snr_range": (8.0, 40.0),
    "augmentation.reverb_prob": 0.1,
    "augmentation.eq_prob": 0.7,
    "augmentation.stem_keep_prob": 0.9,
    "augmentation.xaug_max_k": 0,
    "augmentation.pitch_shift_range": (-5.0, 5.0),
    "augmentation.pitch_shift_detune": 0.1,
    "optimizer.name": "Muon",
    "optimizer.learning_rate": 2e-3,
    "optimizer.weight_decay": 0.01,
    "optimizer.betas": (0.9, 0.98),
    "lr_schedule.name": "cosine",
    "lr_schedule.warmup_steps": 100,
    "lr_schedule.final_cosine": 4e-5,
    "trainer.gradient_clip": 1.0,
    "trainer.precision": "32",
    "trainer.strategy": "auto",
    "trainer.val_interval": 500,
    "wandb.mode": "disabled",
    "inference.overlap": 0.5,
    "inference.pitch_check": 1.0,
}

RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType({"quickstart": MappingProxyType(_QUICKSTART)})
"""Leaves of :class:`~.experiment.Experiment` (dotted, lower case) and their values, by recipe name.
``quickstart``: a small model of the same family that learns sung melodies on a CPU in minutes."""

AUGMENT_PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "off": {
            "amp_range": (1.0, 1.0),
            "stem_keep_prob": 1.0,
            "xaug_max_k": 0,
            "xaug_include_singing": 0.0,
            "pitch_shift_range": (0.0, 0.0),
            "pitch_shift_detune": 0.0,
            "noise_prob": 0.0,
            "reverb_prob": 0.0,
            "eq_prob": 0.0,
            "codec_prob": 0.0,
        },
        "light": {
            "amp_range": (0.9, 1.1),
            "stem_keep_prob": 1.0,
            "xaug_max_k": 0,
            "pitch_shift_range": (0.0, 0.0),
        },
        "standard": {
            "amp_range": (0.7, 1.3),
            "stem_keep_prob": 0.15,
            "xaug_max_k": 2,
            "pitch_shift_range": (-2.0, 2.0),
        },
        "strong": {
            "amp_range": (0.7, 1.3),
            "stem_keep_prob": 0.15,
            "xaug_max_k": 4,
            "pitch_shift_range": (-6.0, 6.0),
        },
    }
)
"""Fields of ``Augmentation`` that each profile of ``--augment`` sets; single flags override them."""


def get_recipe(name: str) -> Mapping[str, Any]:
    """The values of recipe ``name``; an unknown name is an error that lists the known ones."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return RECIPES[name]
