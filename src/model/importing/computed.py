"""Tensors that published checkpoints store although a formula gives them: windows, filters, position tables.

They are not loaded. On import they are compared, because another value would mean another model; on export
they are written again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from ...config import AudioConfig, Experiment, ModelConfig, get_task
from ..frontend.mel import mel_filters
from ..layers.positions import sinusoids
from ..layers.rotary import frequencies

SPARE_POSITIONS = 10
"""Rows that published position tables have beyond the longest sequence."""

_PATTERNS = (
    r"spectrogram\.stft\.window",
    r"spectrogram\.mel_stft\.spectrogram\.window",
    r"spectrogram\.mel_stft\.mel_scale\.fb",
    r"(encoder\.encoder|decoder\.decoder)\.additive_pe\.weight",
    r"encoder\.rotary_emb_(sca|latent|temporal)\.freqs",
    r"encoder\.blocks\.\d+\.(spectral_cross_attention|(local|temporal)_transformer\.\d+\.attention)\.self"
    r"\.rotary_emb\.freqs",
    r"encoder\.embed_positions\.inv_freq",
)
_COMPUTED = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS))
_TOLERANCE = 2e-3
"""Largest difference, relative to the largest entry: half precision keeps that much."""


def is_computed(name: str) -> bool:
    """Whether a published name stands for a tensor that a formula gives."""
    return _COMPUTED.fullmatch(name) is not None


def num_positions(experiment: Experiment) -> int:
    """Rows of the published position table of the decoder, and of the encoder where it has one."""
    longest = max(experiment.audio.num_frames, experiment.event_length)
    return longest + prefix_length(experiment.task) + SPARE_POSITIONS


def prefix_length(task: str) -> int:
    """Task tokens in front of a sequence."""
    return max((len(subtask.tokens) for subtask in get_task(task).subtasks.values()), default=0)


def computed_tensors(experiment: Experiment) -> dict[str, Tensor]:
    """All such tensors of the published model that ``experiment`` describes, by published name."""
    model = experiment.model
    tensors = _frontend(experiment.audio)
    rows = num_positions(experiment)
    if model.encoder_type == "t5" and model.t5_encoder.position_encoding == "sinusoidal":
        tensors["encoder.encoder.additive_pe.weight"] = sinusoids(torch.arange(rows), model.decoder.d_model)
    if model.encoder_type == "conformer" and model.conformer.position_encoding == "rotary":
        width = model.decoder.d_model // model.conformer.num_heads
        tensors["encoder.embed_positions.inv_freq"] = frequencies("l", width).float()
    if model.encoder_type == "perceiver-tf" and model.encoder.position_encoding == "rope":
        tensors.update(_rope(model))
    if model.decoder.position_encoding == "sinusoidal":
        tensors["decoder.decoder.additive_pe.weight"] = sinusoids(torch.arange(rows), model.decoder.d_model)
    return tensors


def differing(weights: Mapping[str, Tensor], experiment: Experiment) -> list[str]:
    """A phrase for each stored tensor that is not what its formula gives for ``experiment``."""
    expected = computed_tensors(experiment)
    phrases = []
    for name, value in weights.items():
        if not is_computed(name):
            continue
        if name not in expected:
            phrases.append(f"{name} belongs to no part of this model")
        elif value.shape != expected[name].shape:
            phrases.append(f"{name} is {tuple(value.shape)}, not {tuple(expected[name].shape)}")
        elif (value.float() - expected[name]).abs().max() > _TOLERANCE * expected[name].abs().max():
            phrases.append(f"{name} has other values than the published formula")
    return phrases


def _frontend(audio: AudioConfig) -> dict[str, Tensor]:
    window = torch.hann_window(audio.n_fft)
    if audio.codec == "spec":
        return {"spectrogram.stft.window": window}
    return {
        "spectrogram.mel_stft.spectrogram.window": window,
        "spectrogram.mel_stft.mel_scale.fb": mel_filters(audio),
    }


def _rope(model: ModelConfig) -> dict[str, Tensor]:
    encoder = model.encoder
    sca, latent, temporal = (frequencies(kind, encoder.num_rotated).float() for kind in encoder.rope_types)
    tensors = {
        "encoder.rotary_emb_sca.freqs": sca,
        "encoder.rotary_emb_latent.freqs": latent,
        "encoder.rotary_emb_temporal.freqs": temporal,
    }
    for block in range(encoder.num_blocks):
        prefix = f"encoder.blocks.{block}"
        tensors[f"{prefix}.spectral_cross_attention.self.rotary_emb.freqs"] = sca
        for kind, count, freqs in (
            ("local", encoder.num_local_layers, latent),
            ("temporal", encoder.num_temporal_layers, temporal),
        ):
            for layer in range(count):
                tensors[f"{prefix}.{kind}_transformer.{layer}.attention.self.rotary_emb.freqs"] = freqs
    return tensors
