"""Strided convolutions before the encoder, pre-encoder ``strided``: cheap enough for two CPU cores.

Axes: B batch, T frames, F bins, C channels.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FREQUENCY_POSITION_STD = 0.3


def _gelu(y: Tensor) -> Tensor:
    """GELU of a channels-last tensor, through the view that is contiguous: its CPU kernel is faster."""
    return F.gelu(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class StridedConv(nn.Module):
    """Convolutions 3×5, 3×3, 3×3 with batch norm and GELU, each with stride 2 in frequency, the second also
    ``time_stride`` in time; then a linear layer and, where keys are bins, a learned position for each.

    With ``harmonics`` the first convolution sees, beside each bin, the bins at those multiples of its
    frequency (Bittner et al. 2017, "Deep Salience Representations for f0 Estimation in Polyphonic Music"):
    on a log-frequency axis these are shifted copies. What lies beyond the ends is 0, the mean.
    """

    def __init__(
        self,
        num_bins: int,
        out_channels: int,
        time_stride: int,
        bin_positions: bool,
        harmonics: tuple[float, ...] = (),
        bins_per_octave: int = 36,
    ) -> None:
        super().__init__()
        self.offsets = tuple(round(bins_per_octave * math.log2(factor)) for factor in harmonics) or (0,)
        self.out_channels = out_channels
        self.out_bins = -(-num_bins // 8)
        half = max(1, out_channels // 2)
        self.conv1 = nn.Conv2d(len(self.offsets), half, (3, 5), (1, 2), (1, 2), bias=False)
        self.bn1 = nn.BatchNorm2d(half)
        self.conv2 = nn.Conv2d(half, out_channels, 3, (time_stride, 2), 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.conv3 = nn.Conv2d(out_channels, out_channels, 3, (1, 2), 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.linear = nn.Linear(out_channels, out_channels)
        self.bin_positions = (
            nn.Parameter(torch.randn(self.out_bins, out_channels) * FREQUENCY_POSITION_STD)
            if bin_positions
            else None
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, ceil(T / time_stride), ceil(F / 8), C)."""
        y = self._stack(x)
        y = _gelu(self.bn1(self.conv1(y)))
        y = _gelu(self.bn2(self.conv2(y)))
        y = _gelu(self.bn3(self.conv3(y)))
        out: Tensor = self.linear(y.permute(0, 2, 3, 1))
        return out if self.bin_positions is None else out + self.bin_positions

    def _stack(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, harmonics, T, F) in channels-last order."""
        if self.offsets == (0,):
            return x[:, None].contiguous(memory_format=torch.channels_last)
        num_bins, below, above = x.shape[-1], max(0, -min(self.offsets)), max(0, *self.offsets)
        wide = F.pad(x, (below, above))
        copies = [wide[..., below + offset : below + offset + num_bins] for offset in self.offsets]
        return torch.stack(copies, dim=-1).permute(0, 3, 1, 2)
