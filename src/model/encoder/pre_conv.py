"""Residual convolutions before the encoder, pre-encoders ``conv``, ``conv1d_t`` and ``conv1d_f``.

Axes: B batch, T frames, F bins, C channels.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..layers.recompute import LayerStack


class ResidualBlock(nn.Module):
    """Two convolutions with a shortcut; halves the frequency axis."""

    def __init__(self, in_channels: int, out_channels: int, kernel: tuple[int, int] = (3, 3)) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel, padding="same", bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel, padding="same", bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1) if in_channels != out_channels else None
        for conv in (self.conv1, self.conv2, self.shortcut):
            if conv is not None:
                nn.init.xavier_uniform_(conv.weight)
                if conv.bias is not None:
                    nn.init.zeros_(conv.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T, F) → (B, C', T, F // 2)."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        y = y + x if self.shortcut is None else _add_pointwise(y, x, self.shortcut)
        return F.avg_pool2d(F.relu(y), (1, 2))


def _add_pointwise(y: Tensor, x: Tensor, conv: nn.Conv2d) -> Tensor:
    """y (B, C', T, F) plus the 1 x 1 convolution of x (B, C, T, F), as one product that keeps channels last.

    A convolution of a single channel would come back, and its gradient be wanted, with channels first.
    """
    assert conv.bias is not None
    batch, _, frames, bins = y.shape
    inputs = F.pad(x.permute(0, 2, 3, 1).flatten(0, 2), (0, 1), value=1.0)
    matrix = torch.cat([conv.weight[:, :, 0, 0].t(), conv.bias[None]])
    total = torch.addmm(y.permute(0, 2, 3, 1).flatten(0, 2), inputs, matrix)
    return total.view(batch, frames, bins, -1).permute(0, 3, 1, 2)


class ResidualConv(LayerStack):
    """Three residual blocks: an eighth of the bins, every frame (YourMT3+). ``kernel``: frames × bins."""

    num_blocks = 3

    def __init__(self, num_bins: int, out_channels: int, kernel: tuple[int, int] = (3, 3)) -> None:
        super().__init__()
        self.out_bins = num_bins // 2**self.num_blocks
        self.out_channels = out_channels
        if self.out_bins == 0:
            raise ValueError(
                f"residual convolutions (-preenc) need at least {2**self.num_blocks} bins, not {num_bins}"
            )
        widths = [1] + [out_channels] * self.num_blocks
        self.blocks = nn.ModuleList(ResidualBlock(a, b, kernel) for a, b in pairwise(widths))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F // 8, C)."""
        y = x[:, None].contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            y = self.run_layer(block, y)
        return y.permute(0, 2, 3, 1)
