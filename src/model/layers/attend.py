"""Scaled dot products, in the number format in which the device is fast at them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


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
    if query.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return F.scaled_dot_product_attention(query, key, value, bias, dropout, is_causal=causal, scale=scale)
    with torch.autocast("cpu", enabled=False):
        out = F.scaled_dot_product_attention(
            query.float(),
            key.float(),
            value.float(),
            None if bias is None else bias.float(),
            dropout,
            is_causal=causal,
            scale=scale,
        )
    return out
