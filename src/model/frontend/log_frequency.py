"""Log-frequency spectrogram, codec ``logspec``: a fixed number of bins per semitone.

Axes: B batch, S samples, T frames, F bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...config import AudioConfig
from .stft import Spectrogram

LOG_FLOOR = 1e-3
LOG_SPREAD = 2.5
"""Typical spread of the logarithms: dividing by it leaves numbers of about unit size."""


def log_frequency_filters(audio: AudioConfig) -> Tensor:
    """(n_fft / 2 + 1, log_bins): a triangle per bin, reaching to the neighbours' centres but at least one
    FFT bin to each side; the weights of each triangle sum to 1.

    Raises:
        ValueError: a bin lies above half the sample rate.
    """
    order = torch.arange(-1, audio.log_bins + 1, dtype=torch.float64)
    pitch = audio.log_min_pitch + order / audio.log_bins_per_semitone
    centres = 440.0 * 2.0 ** ((pitch - 69.0) / 12.0)
    nyquist = audio.sample_rate / 2
    if centres[-2] > nyquist:
        raise ValueError(
            f"logspec: bin {audio.log_bins - 1} would lie at {centres[-2]:.0f} Hz, above half the sample "
            f"rate ({nyquist:.0f} Hz); use fewer log_bins or a lower log_min_pitch"
        )
    spacing = audio.sample_rate / audio.n_fft
    frequency = torch.arange(audio.n_fft // 2 + 1, dtype=torch.float64)[:, None] * spacing
    distance = frequency - centres[1:-1]
    below = (centres[1:-1] - centres[:-2]).clamp(min=spacing)
    above = (centres[2:] - centres[1:-1]).clamp(min=spacing)
    weights = (1.0 - torch.where(distance < 0, -distance / below, distance / above)).clamp(min=0)
    return (weights / weights.sum(0)).float()


class LogFrequencySpectrogram(Spectrogram):
    """Log of smoothed magnitudes on a musical scale, minus the window's mean: pitch shift is a shift of
    bins and loudness drops out."""

    filters: Tensor

    def __init__(self, audio: AudioConfig) -> None:
        super().__init__(audio)
        filters = log_frequency_filters(audio)
        used = filters.sum(1).nonzero()
        self.low, self.high = int(used[0]), int(used[-1]) + 1
        self.register_buffer("filters", filters[self.low : self.high].contiguous(), persistent=False)

    def features(self, audio: Tensor) -> Tensor:
        """(B, S) → (B, T, log_bins), mean 0 per example."""
        y = torch.log(self.power(audio, self.low, self.high).sqrt() @ self.filters + LOG_FLOOR)
        return (y - y.mean((1, 2), keepdim=True)) / LOG_SPREAD
