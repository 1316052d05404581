"""From spectrogram to latents."""

from __future__ import annotations

from ...config import AudioConfig, ModelConfig, unknown_name
from .perceiver_tf import PerceiverTF
from .pre_conv import ResidualConv
from .pre_strided import StridedConv

PreEncoder = ResidualConv | StridedConv


def build_pre_encoder(model: ModelConfig, audio: AudioConfig) -> PreEncoder:
    """The convolutions that ``model.pre_encoder.type`` names.

    Raises:
        ValueError: the name is unknown, or the front end has too few bins.
    """
    config, num_bins = model.pre_encoder, audio.num_bins
    if config.type == "conv":
        return ResidualConv(num_bins, config.out_channels)
    if config.type == "strided":
        bin_positions = not model.encoder.attention_to_channel
        return StridedConv(
            num_bins,
            config.out_channels,
            config.time_stride,
            bin_positions,
            config.harmonics,
            12 * audio.log_bins_per_semitone,
        )
    raise unknown_name("pre-encoder type", config.type, ("conv", "strided"))


def build_encoder(model: ModelConfig, num_frames: int, pre_encoder: PreEncoder) -> PerceiverTF:
    """The encoder that ``model.encoder_type`` names, for segments of ``num_frames`` frames.

    Raises:
        ValueError: the name is unknown.
    """
    if model.encoder_type != "perceiver-tf":
        raise unknown_name("encoder type", model.encoder_type, ("perceiver-tf",))
    return PerceiverTF(model.encoder, num_frames, pre_encoder.out_bins, pre_encoder.out_channels)


__all__ = ["PerceiverTF", "PreEncoder", "build_encoder", "build_pre_encoder"]
