"""Attention of Perceiver-TF.

Axes: B batch, T frames, K latents, D width, H heads, X keys per frame, W width of a key.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import PerceiverTFConfig
from ..layers.norms import make_norm


class _Projections(nn.Module):
    """Query, key, value and output matrices, all with bias."""

    def __init__(self, config: PerceiverTFConfig, query_width: int, key_width: int, out_width: int) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.head_width = config.qk_channels // config.num_heads
        self.dropout = config.dropout
        self.query = nn.Linear(query_width, config.qk_channels)
        self.key = nn.Linear(key_width, config.qk_channels)
        self.value = nn.Linear(key_width, config.v_channels)
        self.output = nn.Linear(config.v_channels, out_width)

    @property
    def active_dropout(self) -> float:
        return self.dropout if self.training else 0.0


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
        self.fold = folded < usual

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """z (B or 1, T or 1, K, D), x (B, T, X, W) → (B, T, K, D')."""
        queries = self.query_norm(z)
        keys = self.key_norm(x)
        # With dropout the probabilities do not sum to one and the value bias may not move.
        if self.fold and self.active_dropout == 0.0:
            out = self._folded(queries, keys)
        else:
            out = self._usual(queries, keys)
        return out + z if self.residual else out

    def _usual(self, z: Tensor, x: Tensor) -> Tensor:
        b, t, num_keys, _ = x.shape
        k = z.shape[2]
        q = self.query(z).expand(b, t, -1, -1).reshape(b * t, k, self.num_heads, -1)
        key = self.key(x).reshape(b * t, num_keys, self.num_heads, -1)
        value = self.value(x).reshape(b * t, num_keys, self.num_heads, -1)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), dropout_p=self.active_dropout
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

    def forward(self, z: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, K, D)."""
        x = self.norm(z)
        q, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(
            q, key, value, dropout_p=self.active_dropout, scale=1.0 / math.sqrt(self.head_width)
        )
        out: Tensor = self.output(y.transpose(1, 2).reshape(*z.shape[:3], -1))
        return z + out

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, K, H·d) → (B, K·H, T, d) over time, (B·T, H, K, d) over latents; views, no copies."""
        b, t, k, _ = x.shape
        if self.over_time:
            return x.reshape(b, t, k * self.num_heads, -1).transpose(1, 2)
        return x.reshape(b * t, k, self.num_heads, -1).transpose(1, 2)
