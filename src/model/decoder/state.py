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
    """Caches of the rows with the given memory (R, T, D), which have ``expected_length`` tokens on average.

    Rows of few tokens keep their memory as it is, and the matrices of keys and values move to the side of the
    query: a step costs more, and the keys and values of all frames are never made.
    """

    def __init__(self, weights: DecoderWeights, memory: Tensor, expected_length: int) -> None:
        self.weights = weights
        self.column = 0
        self.starts = torch.zeros(len(memory), dtype=torch.int64, device=memory.device)
        """(R,) column each row began at."""
        self._first, self._ragged = 0, False
        # Two batched products read the caches faster than the CPU's attention kernel does, fastest with the
        # keys stored by component.
        self._by_products = memory.device.type == "cpu" and weights.dtype == torch.float32
        self.memory: Tensor | None = None
        self.cross: list[tuple[Tensor, Tensor]] = []
        if self._by_products and expected_length < _worthwhile_length(weights, memory):
            self.memory = memory.to(weights.dtype, copy=True)
        else:
            self.cross = [self._keys_and_values(memory, layer.cross_kv) for layer in weights.layers]
        shape = (
            2,
            len(memory),
            weights.num_heads,
            min(FIRST_CAPACITY, weights.max_length),
            weights.head_width,
        )
        self.own = [torch.empty(shape, dtype=weights.dtype, device=memory.device) for _ in weights.layers]

    @property
    def num_rows(self) -> int:
        return len(self.starts)

    def ages(self) -> Tensor:
        """(R,) tokens each row has read."""
        return self.column - self.starts

    def _keys_and_values(self, memory: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """Of memory (R, T, D): keys (R, H, T, d), or (R, H, d, T) by component, and values (R, H, T, d)."""
        memory = memory.to(matrix.dtype)
        rows, frames, _ = memory.shape
        heads, width = self.weights.num_heads, self.weights.head_width
        to_keys, to_values = matrix.chunk(2)
        if self._by_products:
            keys = torch.matmul(to_keys, memory.transpose(1, 2)).view(rows, heads, width, frames)
        else:
            keys = F.linear(memory, to_keys).view(rows, frames, heads, width).transpose(1, 2).contiguous()
        values = F.linear(memory, to_values).view(rows, frames, heads, width).transpose(1, 2).contiguous()
        return keys, values

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but ``rows``, in that order, whose numbers are at least their new places."""
        places = torch.arange(len(rows), device=rows.device)
        moved = rows != places
        sources, places = rows[moved], places[moved]
        count = len(rows)
        if self.memory is not None:
            self.memory[places] = self.memory[sources]
            self.memory = self.memory[:count]
        for keys, values in self.cross:
            keys[places], values[places] = keys[sources], values[sources]
        for own in self.own:
            filled = own[:, :, :, self._first : self.column]
            filled[:, places] = filled[:, sources]
        self.cross = [(keys[:count], values[:count]) for keys, values in self.cross]
        self.own = [own[:, :count] for own in self.own]
        self.starts = self.starts[rows]
        self._look_at_starts()

    def replace(self, rows: Tensor, memory: Tensor) -> None:
        """Put new rows with that memory (n, T, D) in the places ``rows`` (n,)."""
        if self.memory is not None:
            self.memory[rows] = memory.to(self.memory.dtype)
        for number, both in enumerate(self.cross):
            new = self._keys_and_values(memory, self.weights.layers[number].cross_kv)
            for cache, made in zip(both, new, strict=True):
                cache.index_copy_(0, rows, made)
        self.starts[rows] = self.column
        self._look_at_starts()

    def _look_at_starts(self) -> None:
        low, high = self.starts.aminmax()
        self._first, self._ragged = int(low), bool(low != high)

    def _make_room(self) -> None:
        capacity, first = self.own[0].shape[3], self._first
        if self.column < capacity:
            return
        if self.column - first > capacity // 2:
            capacity *= 2
        for number, own in enumerate(self.own):
            filled = own[:, :, :, first : self.column]
            new = own.new_empty((*own.shape[:3], capacity, self.weights.head_width))
            new[:, :, :, : filled.shape[3]] = filled
            self.own[number] = new
        self.column -= first
        self.starts -= first
        self._first = 0

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
        for number, (layer, own) in enumerate(zip(weights.layers, self.own, strict=True)):
            qkv = layer.qkv(weights.norm(x))
            own[:, :, :, column] = qkv[:, inner:].view(rows, 2, heads, width).transpose(0, 1)
            keys, values = own[:, :, :, first : column + 1]
            if self._by_products:
                keys = keys.transpose(2, 3)
            x = x + layer.self_out(self._attend(qkv[:, :inner], keys, values, bias))
            q = layer.cross_q(weights.norm(x))
            if self.memory is None:
                y = self._attend(q, *self.cross[number], None)
            else:
                y = self._attend_to_memory(q, self.memory, layer.cross_kv)
            x = x + layer.cross_out(y)
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

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """One query per row (R, H·d) over values (R, H, L, d) and their keys → (R, H·d)."""
        rows, heads, columns, width = values.shape
        q = q.to(values.dtype).reshape(rows, heads, 1, width)
        if not self._by_products:
            return F.scaled_dot_product_attention(q, keys, values, bias, scale=1.0).reshape(rows, -1)
        scores = torch.bmm(q.flatten(0, 1), keys.flatten(0, 1))
        if bias is not None:
            scores.view(rows, heads, 1, columns).add_(bias)
        return torch.bmm(scores.softmax(-1), values.flatten(0, 1)).view(rows, -1)

    def _attend_to_memory(self, q: Tensor, memory: Tensor, matrix: Tensor) -> Tensor:
        """One query per row (R, H·d) over memory (R, T, D) → (R, H·d), as keys and values would give it."""
        heads, width = self.weights.num_heads, self.weights.head_width
        keys, values = matrix.view(2, heads, width, -1)
        q = torch.bmm(q.view(-1, heads, width).transpose(0, 1), keys)  # (H, R, D)
        probs = torch.bmm(q.transpose(0, 1), memory.transpose(1, 2)).softmax(-1)
        seen = torch.bmm(probs, memory).transpose(0, 1)
        return torch.bmm(seen, values.transpose(1, 2)).transpose(0, 1).reshape(len(memory), -1)


def _worthwhile_length(weights: DecoderWeights, memory: Tensor) -> float:
    """Steps from which on it takes fewer multiplications to have made keys and values of the memory."""
    frames, width = memory.shape[1:]
    inner = weights.num_heads * weights.head_width
    per_step = width * inner + frames * (weights.num_heads * width - inner)
    return frames * width * inner / per_step
