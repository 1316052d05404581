"""Perceiver-TF encoder (Lu et al. 2023, "Multitrack Music Transcription with a Time-Frequency Perceiver").

Axes: B batch, T frames, F bins, C channels, K latents, D width, X keys per frame, W width of a key.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...config import PerceiverTFConfig
from ..layers.feed_forward import MLP
from ..layers.norms import make_norm
from ..layers.positions import FRAME_BASE, sinusoids
from .attention import SelfAttention, SpectralCrossAttention

SPARE_FRAMES = 10
"""Rows that position tables have beyond the frames of a segment, as in published checkpoints."""
SINUSOID_SCALE = 0.5
SINUSOID_LATENT_STD = 0.3
"""Start of the latents beside sinusoids, which would drown latents of the usual size."""


class FeedForward(nn.Module):
    """Pre-norm feed-forward with residual."""

    def __init__(self, config: PerceiverTFConfig) -> None:
        super().__init__()
        self.norm = make_norm(config.norm_type, config.d_model)
        self.mlp = MLP(config.d_model, config.ff_widening, config.hidden_act)

    def forward(self, z: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        out: Tensor = z + self.mlp(self.norm(z))
        return out


class TransformerLayer(nn.Module):
    """Self attention and feed-forward."""

    def __init__(self, config: PerceiverTFConfig, over_time: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(config, over_time)
        self.feed_forward = FeedForward(config)

    def forward(self, z: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, K, D)."""
        out: Tensor = self.feed_forward(self.attention(z))
        return out


class PerceiverTFBlock(nn.Module):
    """Spectral cross attention, then local layers over latents, then temporal layers over frames."""

    def __init__(self, config: PerceiverTFConfig, query_width: int, num_keys: int, key_width: int) -> None:
        super().__init__()
        self.cross_attention = SpectralCrossAttention(
            config, query_width, num_keys, key_width, config.d_model
        )
        self.cross_feed_forward = FeedForward(config) if config.sca_feed_forward else None
        self.local_layers = nn.ModuleList(
            TransformerLayer(config, over_time=False) for _ in range(config.num_local_layers)
        )
        self.temporal_layers = nn.ModuleList(
            TransformerLayer(config, over_time=True) for _ in range(config.num_temporal_layers)
        )

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """z (B or 1, T or 1, K, D), x (B, T, X, W) → (B, T, K, D)."""
        z = self.cross_attention(z, x)
        if self.cross_feed_forward is not None:
            z = self.cross_feed_forward(z)
        for layer in self.local_layers:
            z = layer(z)
        for layer in self.temporal_layers:
            z = layer(z)
        return z


class PerceiverTF(nn.Module):
    """Latents of each frame read its spectrum, then exchange among themselves and over time."""

    frame_positions: Tensor

    def __init__(self, config: PerceiverTFConfig, num_frames: int, num_bins: int, num_channels: int) -> None:
        """``num_frames``: frames of a full segment; ``num_bins`` × ``num_channels`` reach it per frame."""
        super().__init__()
        self.attention_to_channel = config.attention_to_channel
        self.position_encoding = config.position_encoding
        self.max_frames = num_frames + SPARE_FRAMES
        num_keys, key_width = num_bins, num_channels
        if config.attention_to_channel:
            num_keys, key_width = num_channels, num_bins
        self.latents = nn.Parameter(torch.empty(config.num_latents, config.d_latent))
        self.positions = (
            nn.Parameter(torch.empty(self.max_frames, config.num_latents, config.d_latent))
            if config.position_encoding == "trainable"
            else None
        )
        if config.position_encoding == "sinusoidal":
            table = SINUSOID_SCALE * sinusoids(torch.arange(self.max_frames), config.d_latent, FRAME_BASE)
            self.register_buffer("frame_positions", table, persistent=False)
        self.blocks = nn.ModuleList(
            PerceiverTFBlock(config, config.d_model if i else config.d_latent, num_keys, key_width)
            for i in range(config.num_blocks)
        )
        self._init_weights(config)

    @torch.no_grad()
    def _init_weights(self, config: PerceiverTFConfig) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(std=config.init_std)
                module.bias.zero_()
        sinusoidal = config.position_encoding == "sinusoidal"
        self.latents.normal_(std=SINUSOID_LATENT_STD if sinusoidal else config.init_std)
        if self.positions is not None:
            self.positions.normal_(std=config.init_std)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F, C) → (B, T, K, D).

        Raises:
            ValueError: more frames than the positions reach.
        """
        num_frames = x.shape[1]
        if self.position_encoding != "none" and num_frames > self.max_frames:
            raise ValueError(
                f"{num_frames} frames are more than the {self.max_frames} this encoder has positions for; "
                "cut the audio into segments"
            )
        if self.attention_to_channel:
            x = x.transpose(2, 3)
        # The first queries are the same in all examples: they stay unexpanded up to the attention.
        z = self.latents[None, None]
        if self.positions is not None:
            z = z + self.positions[None, :num_frames]
        elif self.position_encoding == "sinusoidal":
            z = z + self.frame_positions[None, :num_frames, None]
        for block in self.blocks:
            z = block(z, x)
        return z
