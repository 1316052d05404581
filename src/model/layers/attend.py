"""Scaled dot products, in the number format and form in which the device is fast at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .dropout import Draws

_BLOCK = 2**17
"""Scores that are made at a time, so that they stay in the cache."""
CAUSAL_ROWS = 128
"""Queries of a block whose later keys are left out."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """``scaled_dot_product_attention``: (B, H, N, d), (B, H, M, d), (B, H, M, d') → (B, H, N, d').

    Under bfloat16 autocast the CPU works in float32 here: the gradient of its bfloat16 kernel takes ten
    times as long as that in float32 (measured with heads of 24).
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, bias, dropout, is_causal=causal, scale=scale)
    if torch.is_autocast_enabled("cpu"):
        query, key, value = query.float(), key.float(), value.float()
        bias = None if bias is None else bias.float()
    with torch.autocast("cpu", enabled=False):
        if dropout == 0.0 or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return F.scaled_dot_product_attention(
                query, key, value, bias, dropout, is_causal=causal, scale=scale
            )
        if scale is None:
            scale = query.shape[-1] ** -0.5
        out: Tensor = _DroppedAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, bias, dropout, causal, scale
        )
        return out


class _Block(NamedTuple):
    """Some heads of some examples, some queries, and the keys these see."""

    examples: slice
    heads: slice
    queries: slice
    keys: slice
    scores: slice
    """Where its scores lie among all."""

    def of_queries(self, x: Tensor) -> Tensor:
        """(B, H, N, d) → a view of its part."""
        return x[self.examples, self.heads, self.queries]

    def of_keys(self, x: Tensor) -> Tensor:
        """(B, H, M, d) → a view of its part."""
        return x[self.examples, self.heads, self.keys]

    def of_bias(self, x: Tensor) -> Tensor:
        """(B or 1, H or 1, N or 1, M or 1) → a view of its part, to be broadcast."""
        return x[
            tuple(part if size > 1 else slice(None) for part, size in zip(self[:4], x.shape, strict=True))
        ]

    def of_scores(self, x: Tensor) -> Tensor:
        """All scores → (examples, heads, queries, keys), a view of its part."""
        return x[self.scores].view(*(part.stop - part.start for part in self[:4]))


def _blocks(query: Tensor, key: Tensor, causal: bool) -> list[_Block]:
    """All scores in blocks. Those of causal attention leave out the keys behind their last query."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    rows = min(queries, CAUSAL_ROWS) if causal else queries
    heads_at_once = min(heads, max(1, _BLOCK // (rows * keys)))
    examples_at_once = max(1, _BLOCK // (heads * rows * keys))
    blocks, begin = [], 0
    for b in _parts(batch, examples_at_once):
        for h in _parts(heads, heads_at_once):
            for n in _parts(queries, rows):
                seen = slice(0, n.stop if causal else keys)
                size = (b.stop - b.start) * (h.stop - h.start) * (n.stop - n.start) * seen.stop
                blocks.append(_Block(b, h, n, seen, slice(begin, begin + size)))
                begin += size
    return blocks


def _parts(total: int, most: int) -> Iterator[slice]:
    """``total`` in as few parts of about the same length as go without one longer than ``most``."""
    size = -(-total // -(-total // most))
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def _zeros(like: Tensor, width: int) -> Tensor:
    """(B, H, N, width) for ``like`` (B, H, N, d), stored so that all heads of a position lie together."""
    batch, heads, length, _ = like.shape
    return like.new_zeros(batch, length, heads, width).transpose(1, 2)


class _DroppedAttention(torch.autograd.Function):
    """Attention with dropout, for which the CPU has no kernel: torch's plain form goes over all scores many
    times and keeps four tensors of their size. Here a block of scores stays in the cache until its part of
    the output is there, and one tensor is kept, with dropped probabilities as negative numbers."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        dropout: float,
        causal: bool,
        scale: float,
    ) -> Tensor:
        assert not causal or query.shape[2] == key.shape[2], "causal attention is of a sequence to itself"
        draws = Draws(dropout)
        blocks = _blocks(query, key, causal)
        signed = query.new_empty(blocks[-1].scores.stop)
        out = _zeros(query, value.shape[3])
        bias_4d = None if bias is None else bias[(None,) * (4 - bias.ndim)]
        future = query.new_full((CAUSAL_ROWS, CAUSAL_ROWS), float("-inf")).triu(1)
        for block in blocks:
            q, k, v = (
                x.flatten(0, 1) for x in (block.of_queries(query), block.of_keys(key), block.of_keys(value))
            )
            part = block.of_scores(signed)
            probs = part.flatten(0, 1)
            torch.baddbmm(probs, q, k.transpose(1, 2), beta=0.0, alpha=scale, out=probs)
            if bias_4d is not None:
                part += block.of_bias(bias_4d)
            if causal:
                rows = q.shape[1]
                probs[:, :, -rows:] += future[:rows, :rows]
            torch.softmax(probs, -1, out=probs)
            kept = draws.fill_signs(torch.empty_like(probs))
            torch.copysign(probs, kept, out=probs)
            seen = torch.bmm(torch.clamp(probs, min=0.0, out=kept), v)
            target = block.of_queries(out)
            torch.mul(seen.view(target.shape), draws.scale, out=target)
        ctx.save_for_backward(query, key, value, bias, out, signed)
        ctx.blocks, ctx.scale, ctx.keep_scale = blocks, scale, draws.scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, out, signed = ctx.saved_tensors
        grads = [_zeros(x, x.shape[3]) for x in (query, key, value)]
        grad_bias = None
        if ctx.needs_input_grad[3]:
            grad_bias = torch.zeros_like(bias)[(None,) * (4 - bias.ndim)]
        for block in ctx.blocks:
            q, g, o = (block.of_queries(x).flatten(0, 1) for x in (query, grad, out))
            k, v = (block.of_keys(x).flatten(0, 1) for x in (key, value))
            mean = (g * o).sum(-1, keepdim=True)
            g = g * ctx.keep_scale
            part = block.of_scores(signed)
            signs = part.flatten(0, 1)
            probs = signs.clamp(min=0.0)
            grad_v = torch.bmm(probs.transpose(1, 2), g)
            grad_scores = torch.bmm(g, v.transpose(1, 2)).mul_(probs)
            grad_scores.addcmul_(torch.abs(signs, out=probs), mean, value=-1.0)
            if grad_bias is not None:
                target = block.of_bias(grad_bias)
                target += grad_scores.view(part.shape).sum_to_size(target.shape)
            by_queries, by_keys = torch.bmm(grad_scores, k), torch.bmm(grad_scores.transpose(1, 2), q)
            parts = (block.of_queries(grads[0]), block.of_keys(grads[1]), block.of_keys(grads[2]))
            for target, made, factor in zip(
                parts, (by_queries, by_keys, grad_v), (ctx.scale, ctx.scale, 1.0), strict=True
            ):
                target.add_(made.view(target.shape), alpha=factor)
        return *grads, None if grad_bias is None else grad_bias.view(bias.shape), None, None, None
