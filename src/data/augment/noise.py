"""Added noise between white and brown at a random level."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft


def coloured_noise(rng: np.random.Generator, num_samples: int, slope: float) -> npt.NDArray[np.float32]:
    """(num_samples,) noise of power 1 whose power falls with frequency to the ``slope`` (0 white,
    1 pink, 2 brown), flat below 1/1000 of the sample rate."""
    size = scipy.fft.next_fast_len(num_samples, real=True)
    bins = size // 2 + 1
    parts = rng.random(2 * bins, dtype=np.float32)
    parts -= np.float32(0.5)
    spectrum = parts.view(np.complex64)
    spectrum *= np.exp(np.float32(-slope / 2) * _log_frequency(bins, size / 1000.0))
    noise: npt.NDArray[np.float32] = scipy.fft.irfft(spectrum, size)[:num_samples]
    power = float(np.dot(noise, noise)) / max(num_samples, 1)
    noise *= np.float32(1.0 / np.sqrt(max(power, 1e-20)))
    return noise


@lru_cache(maxsize=4)
def _log_frequency(bins: int, flat_below: float) -> npt.NDArray[np.float32]:
    return np.log(np.maximum(np.arange(bins, dtype=np.float32), np.float32(flat_below)))


def add_noise(
    audio: npt.NDArray[np.float32], rng: np.random.Generator, snr_range: tuple[float, float]
) -> npt.NDArray[np.float32]:
    """(n,) float32 plus noise of random colour at a signal-to-noise ratio (dB) uniform in ``snr_range``.

    Silence stays silence: there is no level to relate the noise to.
    """
    slope = float(rng.uniform(0.0, 2.0))
    snr = float(rng.uniform(*snr_range))
    power = float(np.dot(audio, audio)) / max(len(audio), 1)
    if power <= 0.0:
        return audio
    level = np.sqrt(power * 10.0 ** (-snr / 10.0))
    return audio + coloured_noise(rng, len(audio), slope) * np.float32(level)
