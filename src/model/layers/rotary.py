"""Rotary positions (Su et al. 2021, "RoFormer").

Axes: Q positions, H heads, R turned components of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LANGUAGE_BASE = 10000.0
PIXEL_MAX_FREQUENCY = 10.0


def rotations(kind: str, num_positions: int, num_rotated: int, device: torch.device | None = None) -> Tensor:
    """Angles as (2, Q, 1, R/2): cosines, then sines, in float32.

    ``kind`` ``l`` counts positions and turns pair m by ``position / 10000^(2m/R)``; ``p`` spreads positions
    over [-1, 1] and turns by π to 5π times these.
    """
    pairs = num_rotated // 2
    if kind == "l":
        positions = torch.arange(num_positions, dtype=torch.float64, device=device)
        order = torch.arange(pairs, dtype=torch.float64, device=device)
        frequencies = LANGUAGE_BASE ** (-2.0 * order / num_rotated)
    else:
        assert kind == "p", kind
        positions = torch.linspace(-1.0, 1.0, num_positions, dtype=torch.float64, device=device)
        frequencies = (
            torch.linspace(1.0, PIXEL_MAX_FREQUENCY / 2, pairs, dtype=torch.float64, device=device) * math.pi
        )
    angles = positions[:, None, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()]).float()


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the first R components of each head, in pairs of neighbours: (…, Q, H, d) → the same.

    ``rotation`` is what :func:`rotations` gives for Q positions.
    """
    cos, sin = rotation
    width = 2 * cos.shape[-1]
    even, odd = x[..., 0:width:2], x[..., 1:width:2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., width:]], dim=-1)
