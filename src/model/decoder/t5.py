"""T5 v1.1 decoder (Raffel et al. 2020, "Exploring the Limits of Transfer Learning").

Axes: B batch, N tokens, T frames, D width, H heads, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import T5DecoderConfig
from ..layers.feed_forward import T5GatedMLP
from ..layers.norms import T5_NORM_EPS, RMSNorm
from ..layers.positions import causal_buckets, sinusoids

NUM_BUCKETS = 32


class T5Attention(nn.Module):
    """Attention without biases and, unless ``scaled_attention``, without the usual division by sqrt(width),
    which T5's start makes up for."""

    def __init__(self, config: T5DecoderConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.num_heads * config.d_kv
        self.num_heads = config.num_heads
        self.dropout = config.dropout
        self.q = nn.Linear(width, inner, bias=False)
        self.k = nn.Linear(width, inner, bias=False)
        self.v = nn.Linear(width, inner, bias=False)
        self.o = nn.Linear(inner, width, bias=False)
        self.scale = config.d_kv**-0.5 if config.scaled_attention else 1.0
        nn.init.normal_(self.q.weight, std=width**-0.5 * (config.d_kv**-0.5 / self.scale))
        nn.init.normal_(self.k.weight, std=width**-0.5)
        nn.init.normal_(self.v.weight, std=width**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)

    def forward(self, x: Tensor, states: Tensor, bias: Tensor | None = None, causal: bool = False) -> Tensor:
        """x (B, N, D) attends to states (B, M, D) → (B, N, D); ``bias`` (1, H, N, M) joins the scores."""
        q, k, v = (self._split(y) for y in (self.q(x), self.k(states), self.v(states)))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, bias, dropout, is_causal=causal, scale=self.scale)
        out: Tensor = self.o(y.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)


class T5DecoderLayer(nn.Module):
    """Causal self attention, cross attention, gated feed-forward, each pre-norm with residual."""

    def __init__(self, config: T5DecoderConfig) -> None:
        super().__init__()
        self.self_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.self_attention = T5Attention(config)
        self.cross_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.cross_attention = T5Attention(config)
        self.ff_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.feed_forward = T5GatedMLP(config.d_model, config.ff_widening, config.dropout)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
        """x (B, N, D), memory (B, T, D) → (B, N, D)."""
        y = self.self_norm(x)
        x = x + self.dropout(self.self_attention(y, y, bias, causal=bias is None))
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory))
        out: Tensor = x + self.dropout(self.feed_forward(self.ff_norm(x)))
        return out


class T5Decoder(nn.Module):
    """Token ids and encoder states to logits. Embedding and output matrix are not tied."""

    positions: Tensor

    def __init__(
        self, config: T5DecoderConfig, num_tokens: int, max_length: int, logit_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.logit_scale = logit_scale
        self.embed = nn.Embedding(num_tokens, config.d_model)
        self.relative_bias: nn.Embedding | None = None
        if config.position_encoding == "trainable":
            self.relative_bias = nn.Embedding(NUM_BUCKETS, config.num_heads)
            nn.init.normal_(self.relative_bias.weight, std=config.d_model**-0.5)
        else:
            table = config.position_scale * sinusoids(torch.arange(max_length), config.d_model)
            self.register_buffer("positions", table, persistent=False)
        self.layers = nn.ModuleList(T5DecoderLayer(config) for _ in range(config.num_layers))
        self.final_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.dropout = nn.Dropout(config.dropout)
        self.lm_head = nn.Linear(config.d_model, num_tokens, bias=False)
        nn.init.normal_(self.embed.weight)

    def hidden(self, ids: Tensor, memory: Tensor) -> Tensor:
        """Input ids (B, N) and memory (B, T, D) → normed states (B, N, D).

        Raises:
            ValueError: more tokens than the decoder has positions.
        """
        num_tokens = ids.shape[1]
        if num_tokens > self.max_length:
            raise ValueError(
                f"{num_tokens} tokens are more than the decoder's {self.max_length} positions (-el)"
            )
        x = self.embed(ids)
        bias = None
        if self.relative_bias is None:
            x = x + self.positions[:num_tokens]
        else:
            bias = self._causal_bias(num_tokens)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, memory, bias)
        out: Tensor = self.dropout(self.final_norm(x))
        return out

    def forward(self, ids: Tensor, memory: Tensor) -> Tensor:
        """Input ids (B, N) and memory (B, T, D) → logits (B, N, V)."""
        out: Tensor = self.lm_head(self.hidden(ids, memory))
        return out if self.logit_scale == 1.0 else out * self.logit_scale

    def distance_bias(self, length: int) -> Tensor:
        """(H, length): bias of a key so many tokens back."""
        assert self.relative_bias is not None
        distance = torch.arange(length, device=self.relative_bias.weight.device)
        out: Tensor = self.relative_bias(causal_buckets(distance, NUM_BUCKETS)).t()
        return out

    def _causal_bias(self, length: int) -> Tensor:
        """(1, H, length, length) bias of each key for each query, minus infinity for the future."""
        index = torch.arange(length, device=self.embed.weight.device)
        distance = index[:, None] - index
        bias = self.distance_bias(length)[:, distance.clamp(min=0)]
        return bias.masked_fill(distance < 0, float("-inf"))[None]
