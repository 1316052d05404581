"""Projections that treat latents apart: ``conv1`` … ``conv64``, ``group_linear``, ``mc_shared_linear``.

Axes: B batch, T frames, K latents, D width of a latent, C decoding channels, W width of the decoder.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LatentConv(nn.Module):
    """A convolution along the width of each latent, then a linear layer.

    The channels of all frames are laid out one after the other and cut into frames anew, so that a "frame"
    of the linear layer holds whole runs of time of few channels. So the published projection does it.
    """

    def __init__(self, num_latents: int, d_latent: int, width: int, kernel: int) -> None:
        super().__init__()
        channels = num_latents * (width // d_latent)
        self.conv = nn.Conv2d(num_latents, channels, (1, kernel), groups=num_latents)
        self.output = nn.Linear(channels * (d_latent - kernel + 1), width)

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, W)."""
        num_frames = states.shape[1]
        y: Tensor = self.conv(states.transpose(1, 2))
        out: Tensor = self.output(y.reshape(len(y), num_frames, -1))
        return out


class GroupLinear(nn.Module):
    """A matrix for each latent; each gives its own share of the decoder's width."""

    def __init__(self, num_latents: int, d_latent: int, width: int) -> None:
        super().__init__()
        share = width // num_latents
        bound = d_latent**-0.5  # the start of a linear layer that reads one latent
        self.weight = nn.Parameter(torch.empty(num_latents, share, d_latent).uniform_(-bound, bound))

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, T, W)."""
        return torch.einsum("btkd,kwd->btkw", states, self.weight).flatten(2)


class ChannelLinear(nn.Linear):
    """Consecutive latents belong to one decoding channel; one matrix serves all channels (YourMT3+)."""

    def __init__(self, num_latents: int, d_latent: int, width: int, num_channels: int) -> None:
        super().__init__(num_latents // num_channels * d_latent, width, bias=False)
        self.num_channels = num_channels

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, C, T, W)."""
        return F.linear(split_channels(states, self.num_channels), self.weight)


class ChannelSplit(nn.Module):
    """:class:`ChannelLinear` where the latents of a channel are as wide as the decoder: no matrix."""

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.num_channels = num_channels

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B, C, T, W)."""
        return split_channels(states, self.num_channels)


def split_channels(states: Tensor, num_channels: int) -> Tensor:
    """(B, T, K, D) → (B, C, T, K / C · D)."""
    return states.reshape(*states.shape[:2], num_channels, -1).transpose(1, 2)
