"""T5 v1.1 decoder (Raffel et al. 2020, "Exploring the Limits of Transfer Learning").

Axes: B batch, N tokens, T frames, D width, H heads, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...config import T5DecoderConfig
from ..layers.dropout import Dropout
from ..layers.experts import MixtureOfExperts
from ..layers.feed_forward import T5GatedMLP
from ..layers.norms import T5_NORM_EPS, RMSNorm
from ..layers.positions import T5_NUM_BUCKETS, causal_buckets, sinusoids
from ..layers.recompute import LayerStack
from ..layers.t5_attention import T5Attention


def _attention(config: T5DecoderConfig) -> T5Attention:
    return T5Attention(config.d_model, config.num_heads, config.d_kv, config.dropout, config.scaled_attention)


class T5DecoderLayer(nn.Module):
    """Causal self attention, cross attention, gated feed-forward, each pre-norm with residual.

    With ``moe`` the third part is a mixture of experts that reads the states without norm and dropout, as
    published; how evenly its experts are used is no term of the loss.
    """

    def __init__(self, config: T5DecoderConfig) -> None:
        super().__init__()
        self.self_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.self_attention = _attention(config)
        self.cross_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.cross_attention = _attention(config)
        self.ff_norm: RMSNorm | None = None
        self.feed_forward: T5GatedMLP | MixtureOfExperts
        if config.ff_type == "moe":
            self.feed_forward = MixtureOfExperts(
                config.d_model, config.ff_widening, config.moe_act, config.moe_num_experts, config.moe_topk
            )
        else:
            self.ff_norm = RMSNorm(config.d_model, T5_NORM_EPS)
            self.feed_forward = T5GatedMLP(config.d_model, config.ff_width, config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
        """x (B, N, D), memory (B, T, D) → (B, N, D)."""
        y = self.self_norm(x)
        x = self.dropout.added(x, self.self_attention(y, y, bias, causal=bias is None))
        x = self.dropout.added(x, self.cross_attention(self.cross_norm(x), memory))
        if isinstance(self.feed_forward, MixtureOfExperts):
            mixed: Tensor = x + self.feed_forward(x)[0]
            return mixed
        assert self.ff_norm is not None
        return self.dropout.added(x, self.feed_forward(self.ff_norm(x)))


class T5Decoder(LayerStack):
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
            self.relative_bias = nn.Embedding(T5_NUM_BUCKETS, config.num_heads)
            nn.init.normal_(self.relative_bias.weight, std=config.d_model**-0.5)
        else:
            table = config.position_scale * sinusoids(torch.arange(max_length), config.d_model)
            self.register_buffer("positions", table, persistent=False)
        self.layers = nn.ModuleList(T5DecoderLayer(config) for _ in range(config.num_layers))
        self.final_norm = RMSNorm(config.d_model, T5_NORM_EPS)
        self.dropout = Dropout(config.dropout)
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
            x = self.run_layer(layer, x, memory, bias)
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
        out: Tensor = self.relative_bias(causal_buckets(distance)).t()
        return out

    def _causal_bias(self, length: int) -> Tensor:
        """(1, H, length, length) bias of each key for each query, minus infinity for the future."""
        index = torch.arange(length, device=self.embed.weight.device)
        distance = index[:, None] - index
        bias = self.distance_bias(length)[:, distance.clamp(min=0)]
        return bias.masked_fill(distance < 0, float("-inf"))[None]
