"""Random smooth equalisation: another body, microphone or make of the same instrument."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

LOWEST_KNOT_HZ = 62.5
KNOTS_PER_OCTAVE = 1
SPREAD_DB = 7.0
"""Standard deviation of the gain at each knot."""
LIMIT_DB = 15.0
FFT_STEP = 2048

FloatArray = npt.NDArray[np.float32]


@lru_cache(maxsize=32)
def _knot_weights(num_bins: int, sample_rate: int) -> FloatArray:
    """(bins, knots) weights that draw a line between knots on a log-frequency axis."""
    top = sample_rate / 2
    count = int(np.ceil(np.log2(top / LOWEST_KNOT_HZ) * KNOTS_PER_OCTAVE)) + 1
    frequency = np.maximum(np.linspace(0.0, top, num_bins), LOWEST_KNOT_HZ)
    place = np.log2(frequency / LOWEST_KNOT_HZ) * KNOTS_PER_OCTAVE
    distance = np.abs(place[:, None] - np.arange(count))
    return np.maximum(1.0 - distance, 0.0).astype(np.float32)


def draw_curve(rng: np.random.Generator, num_bins: int, sample_rate: int) -> FloatArray:
    """(bins,) gains, linear, from 0 to half the sample rate: a knot per octave from 62.5 Hz, normal with 7 dB
    around 0 and within 15 dB, straight lines in dB between them."""
    weights = _knot_weights(num_bins, sample_rate)
    decibels = np.clip(rng.normal(0.0, SPREAD_DB, weights.shape[1]), -LIMIT_DB, LIMIT_DB)
    curve: FloatArray = np.exp(weights @ (decibels * (np.log(10.0) / 20.0)).astype(np.float32))
    return curve


def equalise(audio: FloatArray, rng: np.random.Generator, sample_rate: int) -> FloatArray:
    """(n,) float32 through a random curve; same length and power, no delay of onsets (zero phase)."""
    # Few sizes, so that the weights of the knots are found again: sounds to be shifted have any length.
    size = -(-(len(audio) + sample_rate // 100) // FFT_STEP) * FFT_STEP
    spectrum = scipy.fft.rfft(audio, size)
    spectrum *= draw_curve(rng, len(spectrum), sample_rate)
    filtered: FloatArray = scipy.fft.irfft(spectrum, size)[: len(audio)]
    before, after = float(np.dot(audio, audio)), float(np.dot(filtered, filtered))
    if after > 0.0:
        filtered *= np.float32(np.sqrt(before / after))
    return filtered
