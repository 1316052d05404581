"""Attention of T5 v1.1 (Raffel et al. 2020, "Exploring the Limits of Transfer Learning").

Axes: B batch, N queries, M keys, D width, H heads.
"""

from __future__ import annotations

from torch import Tensor, nn

from .attend import attend


class T5Attention(nn.Module):
    """Attention without biases and, unless ``scaled``, without the usual division by sqrt(d_kv), which T5's
    start makes up for."""

    def __init__(
        self, width: int, num_heads: int, d_kv: int, dropout: float = 0.0, scaled: bool = False
    ) -> None:
        super().__init__()
        inner = num_heads * d_kv
        self.num_heads = num_heads
        self.dropout = dropout
        self.q = nn.Linear(width, inner, bias=False)
        self.k = nn.Linear(width, inner, bias=False)
        self.v = nn.Linear(width, inner, bias=False)
        self.o = nn.Linear(inner, width, bias=False)
        self.scale = d_kv**-0.5 if scaled else 1.0
        nn.init.normal_(self.q.weight, std=width**-0.5 * (d_kv**-0.5 / self.scale))
        nn.init.normal_(self.k.weight, std=width**-0.5)
        nn.init.normal_(self.v.weight, std=width**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)

    def forward(self, x: Tensor, states: Tensor, bias: Tensor | None = None, causal: bool = False) -> Tensor:
        """x (B, N, D) attends to states (B, M, D) → (B, N, D); ``bias`` (1, H, N, M) joins the scores."""
        q, k, v = (self._split(y) for y in (self.q(x), self.k(states), self.v(states)))
        dropout = self.dropout if self.training else 0.0
        y = attend(q, k, v, bias, dropout, causal=causal, scale=self.scale)
        out: Tensor = self.o(y.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)
