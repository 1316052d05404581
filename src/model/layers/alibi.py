"""Attention scores that fall with distance (Press et al. 2022, "Train Short, Test Long").

Axes: H heads, Q queries, X keys.
"""

from __future__ import annotations

import torch
from torch import Tensor


def alibi_slopes(num_heads: int) -> Tensor:
    """(H,) slopes ``2^(-8(h+1)/H)``. For H that is no power of two, those of the power below and then every
    second one of the power above."""
    power = 1 << (num_heads.bit_length() - 1)
    slopes = _geometric(power)
    return torch.cat([slopes, _geometric(2 * power)[::2][: num_heads - power]])


def _geometric(num: int) -> Tensor:
    return 2.0 ** (-8.0 / num * torch.arange(1, num + 1))


def distances(num_queries: int, num_keys: int, device: torch.device | None = None) -> Tensor:
    """(Q, X) ``|j - i|``; where there are fewer queries than keys they lie at the last keys, as published."""
    queries = torch.arange(num_keys - num_queries, num_keys, device=device)
    return (torch.arange(num_keys, device=device) - queries[:, None]).abs().float()
