"""T5 v1.1 encoder on spectrogram frames (Raffel et al. 2020), the encoder of YMT3+.

Axes: B batch, T frames, D width, H heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...config.model import T5EncoderConfig
from ..layers.dropout import Dropout
from ..layers.feed_forward import T5GatedMLP
from ..layers.norms import T5_NORM_EPS, RMSNorm
from ..layers.positions import T5_NUM_BUCKETS, sinusoids, two_sided_buckets
from ..layers.recompute import LayerStack
from ..layers.t5_attention import T5Attention
from .perceiver_tf import SPARE_FRAMES


class T5EncoderLayer(nn.Module):
    """Self attention over all frames and a gated feed-forward, each pre-norm with residual."""

    def __init__(self, config: T5EncoderConfig, width: int) -> None:
        super().__init__()
        self.self_norm = RMSNorm(width, T5_NORM_EPS)
        self.self_attention = T5Attention(width, config.num_heads, config.d_kv, config.dropout)
        self.ff_norm = RMSNorm(width, T5_NORM_EPS)
        self.feed_forward = T5GatedMLP(width, config.d_ff, config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x (B, T, D), bias (1, H, T, T) → (B, T, D)."""
        y = self.self_norm(x)
        x = self.dropout.added(x, self.self_attention(y, y, bias))
        return self.dropout.added(x, self.feed_forward(self.ff_norm(x)))


class T5Encoder(LayerStack):
    """Frames, with sinusoids added or a relative bias in the attention, through a stack of layers."""

    positions: Tensor

    def __init__(self, config: T5EncoderConfig, width: int, num_frames: int) -> None:
        """``width``: of the frames and of all states; ``num_frames``: frames of a full segment."""
        super().__init__()
        self.width = width
        self.position_encoding = config.position_encoding
        self.relative_bias: nn.Embedding | None = None
        if config.position_encoding == "trainable":
            self.relative_bias = nn.Embedding(T5_NUM_BUCKETS, config.num_heads)
            nn.init.normal_(self.relative_bias.weight, std=width**-0.5)
        elif config.position_encoding == "sinusoidal":
            table = sinusoids(torch.arange(num_frames + SPARE_FRAMES), width)
            self.register_buffer("positions", table, persistent=False)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(T5EncoderLayer(config, width) for _ in range(config.num_layers))
        self.final_norm = RMSNorm(width, T5_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D).

        Raises:
            ValueError: more frames than the positions reach.
        """
        num_frames = x.shape[1]
        bias = None
        if self.relative_bias is not None:
            bias = self._relative_bias(self.relative_bias, num_frames)
        elif self.position_encoding == "sinusoidal":
            if num_frames > len(self.positions):
                raise ValueError(
                    f"{num_frames} frames are more than the {len(self.positions)} this encoder has positions "
                    "for; cut the audio into segments"
                )
            x = x + self.positions[:num_frames]
        x = self.dropout(x)
        for layer in self.layers:
            x = self.run_layer(layer, x, bias)
        out: Tensor = self.dropout(self.final_norm(x))
        return out

    @staticmethod
    def _relative_bias(table: nn.Embedding, num_frames: int) -> Tensor:
        """(1, H, T, T) bias of each key for each query."""
        index = torch.arange(num_frames, device=table.weight.device)
        bias: Tensor = table(two_sided_buckets(index - index[:, None]))
        return bias.permute(2, 0, 1)[None]
