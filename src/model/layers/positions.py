"""Sinusoids and T5 distance buckets.

Axes: D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TOKEN_BASE = 10000.0
"""Base of the decoder's token positions (Vaswani et al. 2017)."""
FRAME_BASE = 1000.0
"""Base of time positions in frames: the fastest turns one radian a frame, the slowest stays distinct
over segments of seconds."""
T5_NUM_BUCKETS = 32
"""Distance buckets of T5's relative bias."""
T5_MAX_DISTANCE = 128
"""Distance from which on all share the last bucket."""


def sinusoids(positions: Tensor, width: int, base: float = TOKEN_BASE) -> Tensor:
    """(…) positions, not necessarily whole → (…, D): sines in the first half, cosines in the second.

    ``angle(p, m) = p / base^(2m/D)``; for odd ``width`` the sine half is the larger. Worked out in
    float64, given as float32.
    """
    num_sines = (width + 1) // 2
    order = torch.arange(num_sines, dtype=torch.float64, device=positions.device)
    angles = positions.double()[..., None] * base ** (-2.0 * order / width)
    table = torch.cat([angles.sin(), angles.cos()[..., : width // 2]], dim=-1)
    return table.float()


def causal_buckets(distance: Tensor, num_buckets: int = T5_NUM_BUCKETS) -> Tensor:
    """Bucket of each distance back in time (0 = itself) of T5's relative bias (Raffel et al. 2020).

    The first half of the buckets are exact, the rest grow logarithmically up to ``T5_MAX_DISTANCE``.
    Negative distances (the future) fall in bucket 0; a causal mask hides them.
    """
    distance = distance.clamp(min=0)
    num_exact = num_buckets // 2
    scale = (num_buckets - num_exact) / math.log(T5_MAX_DISTANCE / num_exact)
    large = num_exact + (torch.log(distance.clamp(min=1).float() / num_exact) * scale).long()
    return torch.where(distance < num_exact, distance, large.clamp(max=num_buckets - 1))


def two_sided_buckets(offset: Tensor) -> Tensor:
    """Bucket of each offset, key minus query, of the relative bias of T5's encoder: the first half of the
    buckets for the past and the query itself, the second for the future."""
    half = T5_NUM_BUCKETS // 2
    return causal_buckets(offset.abs(), half) + half * (offset > 0)
