"""Key/value caches of the rows being decoded, and one step of all of them.

All rows write at the same column. A row that joined later began at a later column; what lies before it is
masked. So rows can come and go while the step stays one set of dense products.

Axes: R rows, H heads, L cached columns, T frames, D width, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import DecoderWeights

FIRST_CAPACITY = 64
"""Columns the cache starts with; it doubles when full."""


class DecodingState:
    """Caches of the rows with the given memory (R, T, D)."""

    def __init__(self, weights: DecoderWeights, memory: Tensor) -> None:
        self.weights = weights
        self.column = 0
        self.starts = torch.zeros(len(memory), dtype=torch.int64, device=memory.device)
        """(R,) column each row began at."""
        self._first, self._ragged = 0, False
        self._fused = memory.device.type == "cpu" and weights.dtype == torch.float32
        self.cross = [self._keys_and_values(memory, layer.cross_kv) for layer in weights.layers]
        shape = (
            2,
            len(memory),
            weights.num_heads,
            min(FIRST_CAPACITY, weights.max_length),
            weights.head_width,
        )
        # Zeros, because masked columns are multiplied by 0 and must not be NaN.
        self.own = [torch.zeros(shape, dtype=weights.dtype, device=memory.device) for _ in weights.layers]

    @property
    def num_rows(self) -> int:
        return len(self.starts)

    def ages(self) -> Tensor:
        """(R,) tokens each row has read."""
        return self.column - self.starts

    def _keys_and_values(self, memory: Tensor, matrix: Tensor) -> Tensor:
        """(2, R, H, T, d) of memory (R, T, D)."""
        both = F.linear(memory.to(matrix.dtype), matrix)
        rows, frames, _ = both.shape
        split = both.view(rows, frames, 2, self.weights.num_heads, self.weights.head_width)
        return split.permute(2, 0, 3, 1, 4).contiguous()

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but ``rows`` (indices, rising)."""
        self.starts = self.starts[rows]
        self._look_at_starts()
        first = self._first
        self.cross = [both[:, rows] for both in self.cross]
        self.own = [self._moved(own, first, own.shape[3], rows) for own in self.own]
        self._shift(first)

    def replace(self, rows: Tensor, memory: Tensor) -> None:
        """Put new rows with that memory (n, T, D) in the places ``rows`` (n,)."""
        for both, layer in zip(self.cross, self.weights.layers, strict=True):
            both[:, rows] = self._keys_and_values(memory, layer.cross_kv)
        self.starts[rows] = self.column
        self._look_at_starts()

    def _look_at_starts(self) -> None:
        low, high = self.starts.aminmax()
        self._first, self._ragged = int(low), bool(low != high)

    def _moved(self, own: Tensor, first: int, capacity: int, rows: Tensor | None = None) -> Tensor:
        """A cache with the filled columns from ``first`` on (of ``rows``) at its beginning."""
        filled = own[:, :, :, first : self.column]
        if rows is not None:
            filled = filled[:, rows]
        new = own.new_zeros((*filled.shape[:3], capacity, self.weights.head_width))
        new[:, :, :, : filled.shape[3]] = filled
        return new

    def _shift(self, first: int) -> None:
        self.column -= first
        self.starts -= first
        self._first -= first

    def _make_room(self) -> None:
        capacity, first = self.own[0].shape[3], self._first
        if self.column < capacity:
            return
        if self.column - first > capacity // 2:
            capacity *= 2
        self.own = [self._moved(own, first, capacity) for own in self.own]
        self._shift(first)

    def step(self, ids: Tensor) -> Tensor:
        """Logits (R, V) of the token after input ``ids`` (R,)."""
        self._make_room()
        weights, column = self.weights, self.column
        # No living row is older than max_length; ended rows may be.
        first = max(self._first, column + 1 - weights.max_length)
        x = F.embedding(ids, weights.embed)
        if weights.positions is not None:
            ages = self.ages().clamp(max=weights.max_length - 1) if self._ragged else column - first
            x = x + weights.positions[ages]
        bias = self._bias(first, column + 1)
        rows, heads, width = self.num_rows, weights.num_heads, weights.head_width
        inner = heads * width
        for layer, own, cross in zip(weights.layers, self.own, self.cross, strict=True):
            qkv = layer.qkv(weights.norm(x))
            own[:, :, :, column] = qkv[:, inner:].view(rows, 2, heads, width).transpose(0, 1)
            x = x + layer.self_out(self._attend(qkv[:, :inner], own[:, :, :, first : column + 1], bias))
            x = x + layer.cross_out(self._attend(layer.cross_q(weights.norm(x)), cross, None))
            x = x + layer.feed_forward(x)
        self.column = column + 1
        return weights.head(weights.norm(x))

    def _bias(self, first: int, end: int) -> Tensor | None:
        """(1 or R, H or 1, 1, columns) added to the scores of the own keys; None: nothing."""
        bias = None
        if self.weights.reversed_bias is not None:
            length = self.weights.max_length
            bias = self.weights.reversed_bias[None, :, None, length - (end - first) :]
        if self._ragged:
            columns = torch.arange(first, end, device=self.starts.device)
            before = columns < self.starts[:, None]
            mask = torch.zeros(before.shape, dtype=self.weights.dtype, device=before.device)
            mask = mask.masked_fill_(before, float("-inf"))[:, None, None]
            bias = mask if bias is None else bias + mask
        return bias

    def _attend(self, q: Tensor, keys_values: Tensor, bias: Tensor | None) -> Tensor:
        """One query per row (R, H·d) over keys and values (2, R, H, L, d) → (R, H·d)."""
        _, rows, heads, columns, width = keys_values.shape
        k, v = keys_values[0], keys_values[1]
        q = q.to(k.dtype)
        if not self._fused:
            q = q.reshape(rows, heads, 1, width)
            return F.scaled_dot_product_attention(q, k, v, bias, scale=1.0).reshape(rows, -1)
        # Two batched products read the caches faster than the CPU's attention kernel does.
        flat = (rows * heads, columns, width)
        scores = torch.bmm(q.reshape(-1, 1, width), k.view(flat).transpose(1, 2))
        if bias is not None:
            scores.view(rows, heads, 1, columns).add_(bias)
        return torch.bmm(scores.softmax(-1), v.view(flat)).view(rows, -1)
