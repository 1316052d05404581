"""Projections that read all latents of a frame at once: ``linear``, ``mlp``, ``mlp_gelu``, ``mlp_relu``.

Axes: B batch, T frames, K latents, D width of a latent, W width of the decoder.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..layers.activations import get_activation


class FlatLinear(nn.Linear):
    """One matrix over the latents of a frame."""

    def __init__(self, num_latents: int, d_latent: int, width: int) -> None:
        super().__init__(num_latents * d_latent, width, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, W)."""
        return F.linear(states.flatten(2), self.weight)


class FlatMLP(nn.Module):
    """Three linear layers with norms between them, half as wide inside. Without ``activation`` nothing bends
    but the norms: so it is published."""

    def __init__(self, num_latents: int, d_latent: int, width: int, activation: str | None) -> None:
        super().__init__()
        outer = num_latents * d_latent
        inner = max(1, outer // 2)
        self.linear1 = nn.Linear(outer, inner)
        self.norm1 = nn.LayerNorm(inner)
        self.linear2 = nn.Linear(inner, inner)
        self.norm2 = nn.LayerNorm(inner)
        self.linear3 = nn.Linear(inner, width)
        self.activation = nn.Identity() if activation is None else get_activation(activation)

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, W)."""
        y = self.activation(self.norm1(self.linear1(states.flatten(2))))
        y = self.activation(self.norm2(self.linear2(y)))
        out: Tensor = self.linear3(y)
        return out
