"""Mel spectrogram, codec ``melspec``.

Axes: B batch, S samples, T frames, F bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...config import AudioConfig
from .stft import Spectrogram, min_max_log


def mel_filters(audio: AudioConfig) -> Tensor:
    """(n_fft / 2 + 1, n_mels) triangles of height 1, evenly spaced on the HTK mel scale.

    With many bands the lowest triangles fall between two FFT bins and stay empty, as in the published
    front end.
    """
    frequency = torch.linspace(0, audio.sample_rate / 2, audio.n_fft // 2 + 1, dtype=torch.float64)
    ends = torch.tensor([audio.f_min, audio.f_max], dtype=torch.float64)
    low, high = (2595.0 * torch.log10(1.0 + ends / 700.0)).tolist()
    edges = 700.0 * (
        10.0 ** (torch.linspace(low, high, audio.n_mels + 2, dtype=torch.float64) / 2595.0) - 1.0
    )
    rising = (frequency[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequency[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


class MelSpectrogram(Spectrogram):
    """Log mel power, scaled to 0…1 per example (YourMT3+)."""

    filters: Tensor

    def __init__(self, audio: AudioConfig) -> None:
        super().__init__(audio)
        self.register_buffer("filters", mel_filters(audio), persistent=False)

    def features(self, audio: Tensor) -> Tensor:
        """(B, S) → (B, T, n_mels)."""
        return min_max_log(self.power(audio) @ self.filters)
