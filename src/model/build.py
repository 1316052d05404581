"""Build the network from numbers and names only."""

from __future__ import annotations

from ..config import AudioConfig, ModelConfig, unknown_name
from .transcriber import Transcriber

SINGLE_CHANNEL_DECODERS = ("t5",)


def build_model(
    model: ModelConfig,
    audio: AudioConfig,
    num_tokens: int,
    num_channels: int,
    *,
    pad_id: int = 0,
    eos_id: int = 1,
    max_length: int = 1024,
) -> Transcriber:
    """A fresh :class:`Transcriber` with random weights (global generator).

    ``num_tokens`` is the size of the vocabulary, ``num_channels`` the number of token streams of the task,
    ``max_length`` the longest label.

    Raises:
        ValueError: a name is unknown, or the parts do not fit each other or the task.
    """
    if model.decoder_type not in SINGLE_CHANNEL_DECODERS:
        raise unknown_name("decoder type", model.decoder_type, SINGLE_CHANNEL_DECODERS)
    if num_channels != 1:
        raise ValueError(
            f"-dec {model.decoder_type} writes one token stream but the task has {num_channels} channels; "
            "choose a single-channel task (-tk)"
        )
    return Transcriber(model, audio, num_tokens, pad_id=pad_id, eos_id=eos_id, max_length=max_length)
