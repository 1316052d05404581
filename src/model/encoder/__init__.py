"""From spectrogram to latents, or to frames."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ...config import AudioConfig, ModelConfig, unknown_name
from .conformer import Conformer
from .perceiver_tf import PerceiverTF
from .pre_context import ContextConv, ResidualContextConv
from .pre_conv import ResidualConv
from .pre_strided import StridedConv
from .t5 import T5Encoder


class NoPreEncoder(nn.Module):
    """The spectrogram as it is."""

    out_channels = 1

    def __init__(self, num_bins: int) -> None:
        super().__init__()
        self.out_bins = num_bins

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F)."""
        return x


PreEncoder = ResidualConv | StridedConv | ContextConv | ResidualContextConv | NoPreEncoder
Encoder = PerceiverTF | T5Encoder | Conformer


def _strided(model: ModelConfig, audio: AudioConfig) -> PreEncoder:
    config = model.pre_encoder
    return StridedConv(
        audio.num_bins,
        config.out_channels,
        config.time_stride,
        not model.encoder.attention_to_channel,
        config.harmonics,
        12 * audio.log_bins_per_semitone,
    )


def _residual(kernel: tuple[int, int]) -> Callable[[ModelConfig, AudioConfig], PreEncoder]:
    return lambda model, audio: ResidualConv(audio.num_bins, model.pre_encoder.out_channels, kernel)


_PRE_ENCODERS: dict[str, Callable[[ModelConfig, AudioConfig], PreEncoder]] = {
    "conv": _residual((3, 3)),
    "conv1d_t": _residual((3, 1)),
    "conv1d_f": _residual((1, 3)),
    "hftt": lambda model, audio: ContextConv(audio.num_bins, model.pre_encoder.out_channels),
    "res3b_hftt": lambda model, audio: ResidualContextConv(audio.num_bins, model.pre_encoder.out_channels),
    "strided": _strided,
    "none": lambda _, audio: NoPreEncoder(audio.num_bins),
}
_ENCODERS: dict[str, Callable[[ModelConfig, int, PreEncoder], Encoder]] = {
    "perceiver-tf": lambda model, num_frames, pre: PerceiverTF(
        model.encoder, num_frames, pre.out_bins, pre.out_channels
    ),
    "t5": lambda model, num_frames, _: T5Encoder(model.t5_encoder, model.decoder.d_model, num_frames),
    "conformer": lambda model, num_frames, _: Conformer(model.conformer, model.decoder.d_model),
}


def build_pre_encoder(model: ModelConfig, audio: AudioConfig) -> PreEncoder:
    """The convolutions that ``model.pre_encoder.type`` names.

    Raises:
        ValueError: the name is unknown, or the front end has too few bins.
    """
    kind = model.pre_encoder.type
    if kind not in _PRE_ENCODERS:
        raise unknown_name("pre-encoder type", kind, _PRE_ENCODERS)
    return _PRE_ENCODERS[kind](model, audio)


def build_encoder(model: ModelConfig, num_frames: int, pre_encoder: PreEncoder) -> Encoder:
    """The encoder that ``model.encoder_type`` names, for segments of ``num_frames`` frames.

    Raises:
        ValueError: the name is unknown.
    """
    if model.encoder_type not in _ENCODERS:
        raise unknown_name("encoder type", model.encoder_type, _ENCODERS)
    return _ENCODERS[model.encoder_type](model, num_frames, pre_encoder)


__all__ = [
    "Conformer",
    "Encoder",
    "PerceiverTF",
    "PreEncoder",
    "T5Encoder",
    "build_encoder",
    "build_pre_encoder",
]
