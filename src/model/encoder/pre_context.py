"""A window of frames for each output frame: pre-encoders ``hftt`` (Toyama et al. 2023, "Automatic Piano
Transcription with Hierarchical Frequency-Time Transformer") and ``res3b_hftt``.

Axes: B batch, T frames, F bins, C channels, M context channels, N context frames.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..layers.recompute import LayerStack
from .pre_conv import ResidualConv

CONTEXT_CHANNELS = 4
CONTEXT_FRAMES = 32
"""Frames that each output frame sees: 15 before it, itself, 16 after it."""
CONTEXT_KERNEL = 5
SILENCE = 1e-7
"""Value of the frames beyond both ends."""


def _pad_frames(x: Tensor) -> Tensor:
    """(B, T, F) → (B, T + N - 1, F)."""
    before = (CONTEXT_FRAMES - 1) // 2
    return F.pad(x, (0, 0, before, CONTEXT_FRAMES - 1 - before), value=SILENCE)


class _Context(LayerStack):
    """A linear layer over the window of each frame, bin by bin."""

    def __init__(self, out_bins: int, out_channels: int) -> None:
        super().__init__()
        self.out_bins = out_bins
        self.out_channels = out_channels
        self.linear = nn.Linear(CONTEXT_CHANNELS * CONTEXT_FRAMES, out_channels)

    def gather(self, y: Tensor) -> Tensor:
        """(B, T + N - 1, F, M) → (B, T, F, C)."""
        windows = y.unfold(1, CONTEXT_FRAMES, 1).flatten(3)
        out: Tensor = self.linear(windows)
        return out


class ContextConv(_Context):
    """One convolution along time, then the window of each frame: every bin and every frame stay."""

    def __init__(self, num_bins: int, out_channels: int) -> None:
        super().__init__(num_bins, out_channels)
        self.conv = nn.Conv2d(1, CONTEXT_CHANNELS, (1, CONTEXT_KERNEL), padding="same")

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F, C)."""
        y = self.conv(_pad_frames(x).transpose(1, 2)[:, None])
        return self.gather(y.permute(0, 3, 2, 1))


class ResidualContextConv(_Context):
    """Three residual blocks, then the window of each frame: an eighth of the bins, every frame."""

    def __init__(self, num_bins: int, out_channels: int) -> None:
        convolutions = ResidualConv(num_bins, CONTEXT_CHANNELS)
        super().__init__(convolutions.out_bins, out_channels)
        self.blocks = convolutions.blocks

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F // 8, C)."""
        y = _pad_frames(x)[:, None]
        for block in self.blocks:
            y = self.run_layer(block, y)
        return self.gather(y.permute(0, 2, 3, 1))
