"""Build the network, from numbers and names only or for the run they stand in."""

from __future__ import annotations

from ..config import AudioConfig, Experiment, ModelConfig
from ..config.combinations import check_network
from ..tokenizer import NoteTokenizer
from .transcriber import Transcriber


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
        ValueError: the parts do not fit each other, the audio or the task.
    """
    if model.decoder_type == "t5" and num_channels != 1:
        raise ValueError(
            f"-dec t5 writes one token stream but the task has {num_channels} channels: choose -dec "
            "multi-t5, or a single-channel task (-tk)"
        )
    check_network(model, audio, num_channels)
    return Transcriber(
        model, audio, num_tokens, num_channels, pad_id=pad_id, eos_id=eos_id, max_length=max_length
    )


def build_from(experiment: Experiment, tokenizer: NoteTokenizer) -> Transcriber:
    """The network of a run, for the tokens of ``tokenizer``: see :func:`build_model`."""
    return build_model(
        experiment.model,
        experiment.audio,
        tokenizer.vocab_size,
        tokenizer.num_channels,
        pad_id=tokenizer.pad_id,
        eos_id=tokenizer.eos_id,
        max_length=tokenizer.sequence_length,
    )
