"""Short-time Fourier transform under all front ends.

Axes: B batch, S samples, T frames, F bins.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import AudioConfig


class Spectrogram(nn.Module):
    """Base of the front ends: centred frames, periodic Hann window, always in float32.

    A subclass gives ``features``. Window and filter banks are computed here and not saved.
    """

    window: Tensor

    def __init__(self, audio: AudioConfig) -> None:
        super().__init__()
        self.n_fft = audio.n_fft
        self.hop_length = audio.hop_length
        self.register_buffer("window", torch.hann_window(audio.n_fft), persistent=False)

    def power(self, audio: Tensor, low: int = 0, high: int | None = None) -> Tensor:
        """(B, S) → (B, T, high - low): squared magnitudes of FFT bins ``low`` to ``high``.

        T = S // hop + 1: frame t is centred on sample t · hop, edges are reflected. Audio too short to
        reflect (n_fft / 2 samples or less) is filled up with silence first.
        """
        num_frames = audio.shape[-1] // self.hop_length + 1
        missing = self.n_fft // 2 + 1 - audio.shape[-1]
        if missing > 0:
            audio = F.pad(audio, (0, missing))
        spectrum = torch.stft(
            audio, self.n_fft, self.hop_length, window=self.window, center=True, return_complex=True
        )
        spectrum = spectrum.transpose(1, 2)[:, :num_frames, low:high]
        return spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)

    def features(self, audio: Tensor) -> Tensor:
        """(B, S) float32 → (B, T, F)."""
        raise AssertionError(f"{type(self).__name__} has no features")

    def forward(self, audio: Tensor) -> Tensor:
        """(B, 1, S) waveform in [-1, 1] → (B, T, F) float32, also under autocast."""
        with torch.autocast(audio.device.type, enabled=False):
            return self.features(audio[:, 0].float())


def min_max_log(x: Tensor) -> Tensor:
    """(B, T, F) ≥ 0 → log, then per example to 0…1; silence gives zeros.

    The published normalisation of YourMT3+: ``(y - min) / (max - min + 0.008)`` of ``y = log(x + 1e-5)``.
    """
    y = torch.log(x + 1e-5)
    low = y.amin((1, 2), keepdim=True)
    high = y.amax((1, 2), keepdim=True)
    return torch.nan_to_num((y - low) / (high - low + 0.008))
