"""Scaled dot products, in the number format and form in which the device is fast at them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


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
        if causal:
            bias = query.new_full((query.shape[2], key.shape[2]), float("-inf")).triu(1)
        if scale is None:
            scale = query.shape[-1] ** -0.5
        out: Tensor = _DroppedAttention.apply(query, key, value, bias, dropout, scale)  # type: ignore[no-untyped-call]
        return out


class _DroppedAttention(torch.autograd.Function):
    """Attention with dropout, for which the CPU has no kernel: torch's plain form goes over the scores many
    times and keeps four tensors of their size. One is enough, with dropped probabilities as negative numbers.
    The same numbers are drawn."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, scale: float
    ) -> Tensor:
        scores = torch.matmul(query * scale, key.transpose(2, 3))
        if bias is not None:
            scores += bias
        probs = torch.softmax(scores, -1, out=scores)
        kept = torch.empty_like(probs).bernoulli_(1.0 - dropout)
        out = torch.matmul(probs * kept, value).mul_(1.0 / (1.0 - dropout))
        signed = torch.copysign(probs, kept.sub_(0.5), out=kept)
        ctx.save_for_backward(query, key, value, bias, signed)
        ctx.dropout, ctx.scale = dropout, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, signed = ctx.saved_tensors
        grad = grad * (1.0 / (1.0 - ctx.dropout))
        kept = signed.clamp(min=0.0)
        grad_value = torch.matmul(kept.transpose(2, 3), grad)
        grad_scores = torch.matmul(grad, value.transpose(2, 3)).mul_(kept)
        total = grad_scores.sum(-1, keepdim=True)
        probs = torch.abs(signed, out=kept)
        grad_scores.addcmul_(probs, total, value=-1.0)
        grad_query = torch.matmul(grad_scores, key).mul_(ctx.scale)
        grad_key = torch.matmul(grad_scores.transpose(2, 3), query).mul_(ctx.scale)
        grad_bias = grad_scores.sum_to_size(bias.shape) if ctx.needs_input_grad[3] else None
        return grad_query, grad_key, grad_value, grad_bias, None, None
