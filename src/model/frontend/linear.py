"""Linear magnitude spectrogram, codec ``spec``.

Axes: B batch, S samples, T frames, F bins.
"""

from __future__ import annotations

from torch import Tensor

from .stft import Spectrogram, min_max_log


class LinearSpectrogram(Spectrogram):
    """Log magnitudes of all FFT bins but DC, scaled to 0…1 per example (YourMT3+)."""

    def features(self, audio: Tensor) -> Tensor:
        """(B, S) → (B, T, n_fft / 2)."""
        return min_max_log(self.power(audio, low=1).sqrt())
