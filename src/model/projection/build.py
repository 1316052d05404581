"""The projections by the names of the configuration."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from ...config import ModelConfig, unknown_name
from .flat import FlatLinear, FlatMLP
from .grouped import ChannelLinear, ChannelSplit, GroupLinear, LatentConv

Maker = Callable[[int, int, int, int], nn.Module]
"""Number of latents, their width, width of the decoder, number of decoding channels → projection."""


def _mlp(activation: str | None) -> Maker:
    return lambda latents, d_latent, width, _: FlatMLP(latents, d_latent, width, activation)


def _conv(kernel: int) -> Maker:
    return lambda latents, d_latent, width, _: LatentConv(latents, d_latent, width, kernel)


def _shared(latents: int, d_latent: int, width: int, num_channels: int) -> nn.Module:
    if latents // num_channels * d_latent == width:
        return ChannelSplit(num_channels)
    return ChannelLinear(latents, d_latent, width, num_channels)


_TABLE: dict[str, Maker] = {
    "linear": lambda latents, d_latent, width, _: FlatLinear(latents, d_latent, width),
    "mlp": _mlp(None),
    "mlp_gelu": _mlp("gelu"),
    "mlp_relu": _mlp("relu"),
    "conv1": _conv(1),
    "conv4": _conv(4),
    "conv16": _conv(16),
    "conv32": _conv(32),
    "conv64": _conv(64),
    "group_linear": lambda latents, d_latent, width, _: GroupLinear(latents, d_latent, width),
    "mc_shared_linear": _shared,
    "none": lambda *_: nn.Identity(),
}


def build_projection(model: ModelConfig, num_channels: int) -> nn.Module:
    """The projection that ``model.pre_decoder_type`` names, for ``num_channels`` decoding channels.

    Raises:
        ValueError: the name is unknown.
    """
    if model.pre_decoder_type not in _TABLE:
        raise unknown_name("pre-decoder type", model.pre_decoder_type, _TABLE)
    encoder = model.encoder
    return _TABLE[model.pre_decoder_type](
        encoder.num_latents, encoder.d_model, model.decoder.d_model, num_channels
    )
