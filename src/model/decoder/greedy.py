"""Greedy decoding with a key/value cache.

Axes: B rows, H heads, L cached positions, T frames, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers.norms import T5_NORM_EPS
from .t5 import T5Decoder, T5DecoderLayer

FIRST_CAPACITY = 64
"""Positions the cache starts with; it doubles when full, up to the length bound."""
COMPACT_SHARE = 0.25
"""Share of finished rows at which they leave the batch."""
ACCELERATOR_CHECK_STEPS = 8
"""Steps between two looks at the finished rows where a look makes the host wait."""


@dataclass
class _LayerWeights:
    """Matrices of one layer, fused and with the weights of the norm before them multiplied in."""

    qkv: Tensor
    self_out: Tensor
    cross_q: Tensor
    cross_out: Tensor
    ff_in: Tensor
    ff_out: Tensor

    @classmethod
    def of(cls, layer: T5DecoderLayer, dtype: torch.dtype) -> _LayerWeights:
        own, cross, ff = layer.self_attention, layer.cross_attention, layer.feed_forward
        qkv = torch.cat([own.q.weight, own.k.weight, own.v.weight]) * layer.self_norm.weight
        ff_in = torch.cat([ff.wi_0.weight, ff.wi_1.weight]) * layer.ff_norm.weight
        return cls(
            qkv.to(dtype),
            own.o.weight.to(dtype),
            (cross.q.weight * layer.cross_norm.weight).to(dtype),
            cross.o.weight.to(dtype),
            ff_in.to(dtype),
            ff.wo.weight.to(dtype),
        )


class _GreedyState:
    """Caches of the rows still being decoded."""

    def __init__(self, decoder: T5Decoder, memory: Tensor, max_length: int, dtype: torch.dtype) -> None:
        layers = [layer for layer in decoder.layers if isinstance(layer, T5DecoderLayer)]
        self.num_heads = layers[0].self_attention.num_heads
        self.scale = layers[0].self_attention.scale
        self.weights = [_LayerWeights.of(layer, dtype) for layer in layers]
        self.head = (decoder.lm_head.weight * decoder.final_norm.weight).to(dtype)
        self.decoder = decoder
        self.dtype = dtype
        self.max_length = max_length
        self.bias: Tensor | None = None
        if decoder.relative_bias is not None:
            # Reversed, so that the biases of keys 0…t for query t are the last t + 1 columns.
            self.bias = decoder.distance_bias(max_length).flip(1).to(dtype)
        memory = memory.to(dtype)

        def split(x: Tensor) -> Tensor:
            return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)

        self.cross = [
            tuple(
                split(F.linear(memory, part.weight.to(dtype)))
                for part in (layer.cross_attention.k, layer.cross_attention.v)
            )
            for layer in layers
        ]
        self.cross = [(k.contiguous(), v.contiguous()) for k, v in self.cross]
        self.length = 0
        head_width = self.head_width = layers[0].self_attention.q.weight.shape[0] // self.num_heads
        shape = (2, memory.shape[0], self.num_heads, min(FIRST_CAPACITY, max_length), head_width)
        self.own = [memory.new_empty(shape) for _ in layers]

    def keep(self, rows: Tensor | None, capacity: int) -> None:
        """Copy the filled part of the caches of ``rows`` (all: None) into caches of ``capacity``."""
        if rows is not None:
            self.cross = [(k[rows], v[rows]) for k, v in self.cross]
        for i, old in enumerate(self.own):
            filled = old[:, :, :, : self.length]
            if rows is not None:
                filled = filled[:, rows]
            new = old.new_empty((*filled.shape[:3], capacity, self.head_width))
            new[:, :, :, : self.length] = filled
            self.own[i] = new

    def step(self, ids: Tensor) -> Tensor:
        """The next token after input ``ids`` (B) → (B)."""
        position, end = self.length, self.length + 1
        capacity = self.own[0].shape[3]
        if end > capacity:
            self.keep(None, min(2 * capacity, self.max_length))
        x = F.embedding(ids, self.decoder.embed.weight)
        mask = None
        if self.bias is None:
            x = x + self.decoder.positions[position]
        else:
            mask = self.bias[None, :, None, self.max_length - end :]
        rows, width = x.shape
        norm_shape = (width,)
        for weights, own, (cross_k, cross_v) in zip(self.weights, self.own, self.cross, strict=True):
            y = F.linear(F.rms_norm(x, norm_shape, None, T5_NORM_EPS).to(self.dtype), weights.qkv)
            qkv = y.view(rows, 3, self.num_heads, 1, self.head_width)
            own[:, :, :, position] = qkv[:, 1:, :, 0].transpose(0, 1)
            k, v = own[0, :, :, :end], own[1, :, :, :end]
            y = F.scaled_dot_product_attention(qkv[:, 0], k, v, mask, scale=self.scale)
            x = x + F.linear(y.reshape(rows, -1), weights.self_out)
            y = F.linear(F.rms_norm(x, norm_shape, None, T5_NORM_EPS).to(self.dtype), weights.cross_q)
            q = y.view(rows, self.num_heads, 1, self.head_width)
            y = F.scaled_dot_product_attention(q, cross_k, cross_v, scale=self.scale)
            x = x + F.linear(y.reshape(rows, -1), weights.cross_out)
            y = F.linear(F.rms_norm(x, norm_shape, None, T5_NORM_EPS).to(self.dtype), weights.ff_in)
            gate, value = y.chunk(2, dim=-1)
            x = x + F.linear(F.gelu(gate, approximate="tanh") * value, weights.ff_out)
        self.length = end
        return F.linear(F.rms_norm(x, norm_shape, None, T5_NORM_EPS).to(self.dtype), self.head).argmax(-1)


def greedy_decode(decoder: T5Decoder, memory: Tensor, max_length: int, *, pad_id: int, eos_id: int) -> Tensor:
    """The likeliest token at each step, from memory (B, T, D) → ids (B, N) with N ≤ ``max_length``.

    Decoding starts from PAD. A row ends with its EOS, which is kept and also counts as the first token, or
    at ``max_length``; PAD follows. Finished rows leave the batch in groups, so they stop costing. Under
    autocast the matrices are cast once to its type.

    Raises:
        ValueError: ``max_length`` is not between 1 and the decoder's positions.
    """
    if not 1 <= max_length <= decoder.max_length:
        raise ValueError(f"max_length must be 1 to {decoder.max_length} (-el), not {max_length}")
    device = memory.device.type
    dtype = (
        torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else decoder.embed.weight.dtype
    )
    num_rows = memory.shape[0]
    ids = torch.full((num_rows, max_length), pad_id, dtype=torch.int64, device=memory.device)
    if num_rows == 0:
        return ids[:, :1]
    with torch.inference_mode(), torch.autocast(device, enabled=False):
        state = _GreedyState(decoder, memory, max_length, dtype)
        rows = torch.arange(num_rows, device=memory.device)
        last = ids.new_full((num_rows,), pad_id)
        done = torch.zeros(num_rows, dtype=torch.bool, device=memory.device)
        check_steps = 1 if device == "cpu" else ACCELERATOR_CHECK_STEPS
        for step in range(max_length):
            last = state.step(last).masked_fill_(done, pad_id)
            ids[rows, step] = last
            done |= last == eos_id
            if (step + 1) % check_steps:
                continue
            num_done = int(done.sum())
            if num_done == len(rows):
                break
            if num_done >= COMPACT_SHARE * len(rows):
                left = (~done).nonzero()[:, 0]
                state.keep(left, state.own[0].shape[3])
                rows, last, done = rows[left], last[left], done[left]
        used = (ids != pad_id).any(0).nonzero()
        longest = int(used[-1]) + 1 if len(used) else 1
    return ids[:, :longest].clone()
