"""Which parts of a network fit each other, the audio and the task; refusals name those that do."""

from __future__ import annotations

from .audio import AudioConfig
from .model import CONVOLUTION_KERNELS, RESIDUAL_PRE_ENCODERS, ModelConfig
from .tasks import Task, get_task, list_tasks

_MIN_RESIDUAL_BINS = 8
"""Three halvings leave one bin of these."""


def check_task(model: ModelConfig, task: Task) -> None:
    """The decoder writes as many channels as the task has.

    Raises:
        ValueError: it does not.
    """
    if task.channels and model.decoder_type == "t5":
        raise ValueError(
            f"-tk {task.name} decodes {task.num_channels} channels and -dec t5 only one: add -dec multi-t5, "
            f"or take one of the tasks that fit -dec t5: {_tasks(channels=False)}"
        )
    if not task.channels and model.decoder_type == "multi-t5":
        raise ValueError(
            f"-tk {task.name} is one stream and -dec multi-t5 writes several: use -dec t5, or take one of "
            f"the tasks that fit -dec multi-t5: {_tasks(channels=True)}"
        )


def _tasks(*, channels: bool) -> str:
    return ", ".join(name for name in list_tasks() if bool(get_task(name).channels) == channels)


def check_network(model: ModelConfig, audio: AudioConfig, num_channels: int) -> None:
    """The parts fit each other, the spectrogram and the number of decoding channels.

    Raises:
        ValueError: they do not.
    """
    if model.encoder_type == "perceiver-tf":
        _check_latents(model, num_channels)
    else:
        _check_frames(model, audio)
    kind = model.pre_encoder.type
    if kind in RESIDUAL_PRE_ENCODERS and audio.num_bins < _MIN_RESIDUAL_BINS:
        raise ValueError(
            f"-preenc {kind} halves the bins three times and needs at least {_MIN_RESIDUAL_BINS} bins, not "
            f"{audio.num_bins} (-nmel)"
        )


def _check_frames(model: ModelConfig, audio: AudioConfig) -> None:
    """Encoders that take the spectrogram's frames as they are."""
    width = model.decoder.d_model
    if audio.num_bins != width:
        ways = f"-ac melspec -nmel {width}" if audio.codec != "melspec" else f"-nmel {width}"
        raise ValueError(
            f"-enc {model.encoder_type} takes frames as wide as the decoder: -ac {audio.codec} gives "
            f"{audio.num_bins} bins and --d-model is {width}; use {ways}, or --d-model {audio.num_bins}"
        )
    heads = model.conformer.num_heads
    if model.encoder_type == "conformer":
        per_head = width / heads
        step = 2 if model.conformer.position_encoding == "rotary" else 1
        if per_head % step:
            raise ValueError(
                f"-enc conformer splits --d-model {width} over {heads} heads (--num-heads), and each needs "
                f"{'an even' if step == 2 else 'a whole'} width; choose heads that divide {width // step}"
            )


def _check_latents(model: ModelConfig, num_channels: int) -> None:
    """Projections of a latent array."""
    kind, width = model.pre_decoder_type, model.decoder.d_model
    latents, d_latent = model.encoder.num_latents, model.encoder.d_model
    if model.decoder_type == "multi-t5" and latents % num_channels:
        near = max(1, round(latents / num_channels)) * num_channels
        raise ValueError(
            f"-dec multi-t5 shares {latents} latents (-nl) over {num_channels} channels, which does not come "
            f"out even: use a multiple of {num_channels} such as -nl {near}"
        )
    if kind == "group_linear" and width % latents:
        raise ValueError(
            f"-predec group_linear shares --d-model {width} over {latents} latents (-nl), which does not "
            "come out even: use as many latents as divide it, or -predec linear"
        )
    if kind in CONVOLUTION_KERNELS and not CONVOLUTION_KERNELS[kind] <= d_latent <= width:
        raise ValueError(
            f"-predec {kind} needs latents (-dpm) at least {CONVOLUTION_KERNELS[kind]} and at most --d-model "
            f"{width} wide, not {d_latent}: use -predec linear"
        )
