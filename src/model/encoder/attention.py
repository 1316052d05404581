"""Attention of Perceiver-TF.

Axes: B batch, T frames, K latents, D width, H heads, X keys per frame, W width of a key, R turned components.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import PerceiverTFConfig
from ...config.perceiver import ALIBI_POSITIONS
from ..layers.alibi import alibi_slopes
from ..layers.attend import attend
from ..layers.norms import make_norm
from ..layers.rotary import rotate

SLOPE_MEAN = -2.0
"""Learned slopes start around the sigmoid of this."""


class AttentionPositions(NamedTuple):
    """What an attention is told of positions; nothing for most encodings."""

    query_rotation: Tensor | None = None
    """(2, Q, 1, R/2), see :func:`~amt.model.layers.rotary.rotations`."""
    key_rotation: Tensor | None = None
    """The same for keys; None leaves them unturned."""
    distance: Tensor | None = None
    """(Q, X) distances that lower the scores."""

    def turn(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (…, Q, H, d) and keys (…, X, H, d), each turned if it is to be."""
        if self.query_rotation is not None:
            query = rotate(query, self.query_rotation)
        if self.key_rotation is not None:
            key = rotate(key, self.key_rotation)
        return query, key


NO_POSITIONS = AttentionPositions()


class _Projections(nn.Module):
    """Query, key, value and output matrices, all with bias; and the slopes of ``alibi``."""

    fixed_slopes: Tensor

    def __init__(self, config: PerceiverTFConfig, query_width: int, key_width: int, out_width: int) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.head_width = config.qk_channels // config.num_heads
        self.dropout = config.dropout
        self.query = nn.Linear(query_width, config.qk_channels)
        self.key = nn.Linear(key_width, config.qk_channels)
        self.value = nn.Linear(key_width, config.v_channels)
        self.output = nn.Linear(config.v_channels, out_width)
        self.alibi_scale = config.alibi_scale
        self.slopes: nn.Parameter | None = None
        if config.position_encoding == "alibi":
            self.register_buffer(
                "fixed_slopes", alibi_slopes(config.num_heads)[:, None, None], persistent=False
            )
        elif config.position_encoding == "alibit":
            self.slopes = nn.Parameter(torch.randn(config.num_heads, 1, 1) + SLOPE_MEAN)

    @property
    def active_dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _bias(self, positions: AttentionPositions, dtype: torch.dtype) -> Tensor | None:
        """(H, Q, X) to add to the scaled scores, or None."""
        if positions.distance is None:
            return None
        slopes = self.fixed_slopes if self.slopes is None else self.slopes.sigmoid()
        return (-self.alibi_scale * slopes * positions.distance).to(dtype)


class SpectralCrossAttention(_Projections):
    """The latents of each frame attend to that frame's spectral keys (Lu et al. 2023).

    Two ways to the same result: the usual one, and one that moves the key and value matrices to the side of
    the latents. The second never makes keys and values of all bins; with few latents it is the cheaper.
    """

    def __init__(
        self, config: PerceiverTFConfig, query_width: int, num_keys: int, key_width: int, out_width: int
    ) -> None:
        super().__init__(config, query_width, key_width, out_width)
        self.query_norm = make_norm(config.norm_type, query_width)
        self.key_norm = make_norm(config.norm_type, key_width)
        self.residual = config.sca_query_residual
        latents, qk, v = config.num_latents, config.qk_channels, config.v_channels
        usual = num_keys * (key_width + latents) * (qk + v) + latents * (query_width * qk + v * out_width)
        folded = latents * config.num_heads * key_width * (query_width + 2 * num_keys + out_width)
        self.has_positions = config.position_encoding in ("rope", *ALIBI_POSITIONS)
        self.fold = folded < usual and not self.has_positions

    def forward(self, z: Tensor, x: Tensor, positions: AttentionPositions = NO_POSITIONS) -> Tensor:
        """z (B or 1, T or 1, K, D), x (B, T, X, W) → (B, T, K, D')."""
        queries = self.query_norm(z)
        keys = self.key_norm(x)
        # With dropout the probabilities do not sum to one and the value bias may not move.
        if self.fold and self.active_dropout == 0.0:
            out = self._folded(queries, keys)
        else:
            out = self._usual(queries, keys, positions)
        return out + z if self.residual else out

    def _usual(self, z: Tensor, x: Tensor, positions: AttentionPositions) -> Tensor:
        b, t, num_keys, _ = x.shape
        k = z.shape[2]
        q = self.query(z).view(*z.shape[:3], self.num_heads, -1)
        key = self.key(x).reshape(b * t, num_keys, self.num_heads, -1)
        q, key = positions.turn(q, key)
        q = q.expand(b, t, -1, -1, -1).reshape(b * t, k, self.num_heads, -1)
        value = self.value(x).reshape(b * t, num_keys, self.num_heads, -1)
        bias = self._bias(positions, q.dtype)
        y = attend(
            q.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            None if bias is None else bias[None],
            self.active_dropout,
        )
        out: Tensor = self.output(y.transpose(1, 2).reshape(b, t, k, -1))
        return out

    def _folded(self, z: Tensor, x: Tensor) -> Tensor:
        b, t, _, width = x.shape
        k, heads = z.shape[2], self.num_heads
        # q·(W_k x + b_k) = (W_kᵀ q)·x + a term equal for all keys, which the softmax cancels.
        key = self.key.weight.view(heads, self.head_width, width).transpose(1, 2)
        key = key * (1.0 / math.sqrt(self.head_width))
        weight = torch.bmm(key, self.query.weight.view(heads, self.head_width, -1)).flatten(0, 1)
        bias = torch.bmm(key, self.query.bias.view(heads, self.head_width, 1)).flatten()
        q = F.linear(z, weight, bias).view(*z.shape[:2], k * heads, width).expand(b, t, -1, -1)
        # The scores are few here, and two plain products beat the fused kernel on so small matrices.
        x = x.flatten(0, 1)
        y = torch.bmm(torch.bmm(q.flatten(0, 1), x.transpose(1, 2)).softmax(-1), x)
        # Output matrix times value matrix, per head; the weights of the keys sum to one, so b_v passes.
        value = self.value.weight.view(heads, -1, width)
        out = self.output.weight.view(-1, heads, value.shape[1]).transpose(0, 1)
        weight = torch.bmm(out, value).transpose(0, 1).flatten(1)
        bias = self.output.bias + self.output.weight @ self.value.bias
        # The key bias has no effect; its zero gradient keeps data parallel training from missing it.
        bias = bias + 0.0 * self.key.bias.sum()
        return F.linear(y.reshape(b, t, k, heads * width), weight, bias)


class SelfAttention(_Projections):
    """Pre-norm self attention with residual, over the latents of a frame or over the frames of a latent."""

    def __init__(self, config: PerceiverTFConfig, over_time: bool) -> None:
        super().__init__(config, config.d_model, config.d_model, config.d_model)
        self.norm = make_norm(config.norm_type, config.d_model)
        self.over_time = over_time

    def forward(self, z: Tensor, positions: AttentionPositions = NO_POSITIONS) -> Tensor:
        """(B, T, K, D) → (B, T, K, D)."""
        x = self.norm(z)
        q, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        q, key = positions.turn(q, key)
        bias = self._bias(positions, q.dtype)
        if bias is not None:
            bias = bias.repeat(q.shape[2] // self.num_heads, 1, 1)[None]
        y = attend(q.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), bias, self.active_dropout)
        out: Tensor = self.output(y.transpose(1, 2).reshape(*z.shape[:3], -1))
        return z + out

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, K, H·d) → (B, T, K·H, d) over time, (B·T, K, H, d) over latents; views, no copies."""
        b, t, k, _ = x.shape
        if self.over_time:
            return x.reshape(b, t, k * self.num_heads, -1)
        return x.reshape(b * t, k, self.num_heads, -1)
