"""Rotary positions (Su et al. 2021, "RoFormer").

Axes: Q positions, H heads, R turned components of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROTARY_BASE = 10000.0
PIXEL_MAX_FREQUENCY = 10.0


def rotations(kind: str, num_positions: int, num_rotated: int, device: torch.device | None = None) -> Tensor:
    """Angles as (2, Q, 1, R/2): cosines, then sines, in float32.

    ``kind`` ``l`` counts positions and turns pair m by ``position / 10000^(2m/R)``; ``p`` spreads positions
    over [-1, 1] and turns by π to 5π times these.
    """
    if kind == "l":
        positions = torch.arange(num_positions, dtype=torch.float64, device=device)
    else:
        positions = torch.linspace(-1.0, 1.0, num_positions, dtype=torch.float64, device=device)
    angles = positions[:, None, None] * frequencies(kind, num_rotated, device)
    return torch.stack([angles.cos(), angles.sin()]).float()


def frequencies(kind: str, num_rotated: int, device: torch.device | None = None) -> Tensor:
    """(R/2,) float64 radians per unit of position of each turned pair."""
    pairs = num_rotated // 2
    if kind == "l":
        return ROTARY_BASE ** (-2.0 * torch.arange(pairs, dtype=torch.float64, device=device) / num_rotated)
    assert kind == "p", kind
    highest = PIXEL_MAX_FREQUENCY / 2
    return torch.linspace(1.0, highest, pairs, dtype=torch.float64, device=device) * math.pi


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the first R components of each head, in pairs of neighbours: (…, Q, H, d) → the same.

    ``rotation`` is what :func:`rotations` gives for Q positions.
    """
    cos, sin = rotation
    width = 2 * cos.shape[-1]
    even, odd = x[..., 0:width:2], x[..., 1:width:2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., width:]], dim=-1)
