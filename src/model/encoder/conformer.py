"""Conformer encoder (Gulati et al. 2020, "Conformer: Convolution-augmented Transformer"), in the form of
wav2vec 2.0 conformers (Wang et al. 2021, "fairseq S2T").

Axes: B batch, T frames, D width, H heads.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config.model import ConformerConfig
from ..layers.attend import attend
from ..layers.dropout import Dropout
from ..layers.norms import ENCODER_NORM_EPS
from ..layers.recompute import LayerStack
from ..layers.rotary import ROTARY_BASE


class ConformerFeedForward(nn.Module):
    """Norm, linear, GELU, linear; added at half weight by the layer."""

    def __init__(self, config: ConformerConfig, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=ENCODER_NORM_EPS)
        self.dense1 = nn.Linear(width, config.d_ff)
        self.dense2 = nn.Linear(config.d_ff, width)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D), without the residual."""
        y = self.dropout(F.gelu(self.dense1(self.norm(x))))
        out: Tensor = self.dropout(self.dense2(y))
        return out


class ConformerAttention(nn.Module):
    """Norm and self attention over all frames.

    ``rotary`` turns the normed states, head slice by head slice, before the query and key matrices (Su et
    al. 2021, in the place that wav2vec 2.0 conformers give it); ``relative`` adds a score for the distance
    of each pair (Dai et al. 2019, "Transformer-XL").
    """

    def __init__(self, config: ConformerConfig, width: int) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.head_width = width // config.num_heads
        self.position_encoding = config.position_encoding
        self.dropout = config.dropout
        self.norm = nn.LayerNorm(width, eps=ENCODER_NORM_EPS)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        if config.position_encoding == "relative":
            self.distance = nn.Linear(width, width, bias=False)
            self.content_bias = nn.Parameter(torch.zeros(config.num_heads, self.head_width))
            self.distance_bias = nn.Parameter(torch.zeros(config.num_heads, self.head_width))

    def forward(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """(B, T, D) → (B, T, D), without the residual. ``positions``: angles (T, D / H) for ``rotary``,
        a row per distance (2 T - 1, D) for ``relative``."""
        y = self.norm(x)
        turned = y
        if self.position_encoding == "rotary":
            assert positions is not None
            turned = rotate_halves(self._heads(y), positions[:, None]).flatten(2)
        query, key, value = (
            self._heads(part(z)).transpose(1, 2)
            for part, z in ((self.query, turned), (self.key, turned), (self.value, y))
        )
        bias = None
        if self.position_encoding == "relative":
            assert positions is not None
            bias = self._distance_scores(query, positions)
            query = query + self.content_bias[:, None]
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, value, bias, dropout)
        result: Tensor = self.output(out.transpose(1, 2).flatten(2))
        return result

    def _heads(self, x: Tensor) -> Tensor:
        """(…, D) → (…, H, d)."""
        return x.view(*x.shape[:-1], self.num_heads, -1)

    def _distance_scores(self, query: Tensor, table: Tensor) -> Tensor:
        """query (B, H, T, d), table (2 T - 1, D) from the farthest past key to the farthest future key's
        distance → (B, H, T, T), already divided by sqrt(d)."""
        num_frames = query.shape[2]
        distance = self._heads(self.distance(table.to(query.dtype))).permute(1, 2, 0)
        scores = (query + self.distance_bias[:, None]) @ distance / math.sqrt(self.head_width)
        # Row i needs columns T - 1 - i onwards: a shift by one column per row, done by a change of shape.
        padded = F.pad(scores, (1, 0)).flatten(2)[..., num_frames:]
        return padded.view(*padded.shape[:2], num_frames, -1)[..., :num_frames]


class ConformerConvolution(nn.Module):
    """Norm, pointwise convolution with a gate, depthwise convolution over time, batch norm, GELU, pointwise
    convolution."""

    def __init__(self, config: ConformerConfig, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=ENCODER_NORM_EPS)
        self.pointwise1 = nn.Conv1d(width, 2 * width, 1, bias=False)
        self.depthwise = nn.Conv1d(
            width, width, config.conv_kernel, padding=config.conv_kernel // 2, groups=width, bias=False
        )
        self.batch_norm = nn.BatchNorm1d(width)
        self.pointwise2 = nn.Conv1d(width, width, 1, bias=False)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D), without the residual."""
        y = F.glu(self.pointwise1(self.norm(x).transpose(1, 2)), dim=1)
        y = self.pointwise2(F.gelu(self.batch_norm(self.depthwise(y))))
        out: Tensor = self.dropout(y.transpose(1, 2))
        return out


class ConformerLayer(nn.Module):
    """Half a feed-forward, attention, convolution, half a feed-forward, norm."""

    def __init__(self, config: ConformerConfig, width: int) -> None:
        super().__init__()
        self.feed_forward1 = ConformerFeedForward(config, width)
        self.attention = ConformerAttention(config, width)
        self.convolution = ConformerConvolution(config, width)
        self.feed_forward2 = ConformerFeedForward(config, width)
        self.norm = nn.LayerNorm(width, eps=ENCODER_NORM_EPS)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """(B, T, D) → (B, T, D); ``positions`` as in :class:`ConformerAttention`."""
        x = x + 0.5 * self.feed_forward1(x)
        x = self.dropout.added(x, self.attention(x, positions))
        x = x + self.convolution(x)
        out: Tensor = self.norm(x + 0.5 * self.feed_forward2(x))
        return out


class Conformer(LayerStack):
    """A stack of conformer layers and a norm. Starts from PyTorch's own weights, as published."""

    def __init__(self, config: ConformerConfig, width: int) -> None:
        """``width``: of the frames and of all states."""
        super().__init__()
        self.width = width
        self.head_width = width // config.num_heads
        self.position_encoding = config.position_encoding
        self.layer_drop = config.layer_drop
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(ConformerLayer(config, width) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(width, eps=ENCODER_NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        positions = self._positions(x.shape[1], x.device)
        x = self.dropout(x)
        for layer in self.layers:
            y = self.run_layer(layer, x, positions)
            if self.training and self.layer_drop > 0:
                # LayerDrop (Fan et al. 2020) by selection: no wait for the device, and every weight keeps a
                # (zero) gradient, which data parallel training counts on.
                y = torch.where(torch.rand((), device=x.device) < self.layer_drop, x, y)
            x = y
        out: Tensor = self.norm(x)
        return out

    def _positions(self, num_frames: int, device: torch.device) -> Tensor | None:
        if self.position_encoding == "rotary":
            return _angles(torch.arange(num_frames, device=device), self.head_width)
        if self.position_encoding == "relative":
            distance = torch.arange(num_frames - 1, -num_frames, -1, device=device)
            angles = _angles(distance, self.width)[:, : (self.width + 1) // 2]
            return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, : self.width]
        return None


def _angles(positions: Tensor, width: int) -> Tensor:
    """(…) → (…, width) float32: ``p / base^(2m/width)``, the angles of the halves one after the other."""
    order = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    angles = positions.double()[..., None] * ROTARY_BASE ** (-order / width)
    return torch.cat([angles, angles], dim=-1).float()


def rotate_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs (m, m + d/2) of the last axis: x (…, d) by angles that broadcast to it."""
    first, second = x.chunk(2, dim=-1)
    turned = x.float() * angles.cos() + torch.cat([-second, first], dim=-1).float() * angles.sin()
    return turned.to(x.dtype)
