"""A synthetic room: the dry sound at once, then a decaying noise tail."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft

MAX_SECONDS = 0.5
"""Longest tail."""


def room_response(rng: np.random.Generator, sample_rate: int) -> npt.NDArray[np.float32]:
    """A random impulse response: 1 at time 0, then white noise that decays exponentially.

    Reverberation time 0.15 to 0.5 s (60 dB), a gap of 2 to 20 ms before the tail, and 3 to 18 dB between the
    energy of the direct sound and that of the tail. The direct sound is not delayed, so onsets hold.
    """
    decay_seconds = float(rng.uniform(0.15, MAX_SECONDS))
    gap_seconds = float(rng.uniform(0.002, 0.020))
    ratio_db = float(rng.uniform(3.0, 18.0))
    length = int(decay_seconds * sample_rate)
    gap = int(gap_seconds * sample_rate)
    response = rng.random(length, dtype=np.float32)
    response -= np.float32(0.5)
    response *= np.exp(np.float32(-6.9078 / length) * np.arange(length, dtype=np.float32))
    response[: max(gap, 1)] = 0.0
    energy = float(np.dot(response, response))
    response *= np.float32(np.sqrt(10.0 ** (-ratio_db / 10.0) / max(energy, 1e-12)))
    response[0] = 1.0
    return response


def add_room(
    audio: npt.NDArray[np.float32], rng: np.random.Generator, sample_rate: int
) -> npt.NDArray[np.float32]:
    """(n,) float32 in a random room; same length."""
    response = room_response(rng, sample_rate)
    size = scipy.fft.next_fast_len(len(audio) + len(response) - 1, real=True)
    spectrum = scipy.fft.rfft(audio, size)
    spectrum *= scipy.fft.rfft(response, size)
    wet: npt.NDArray[np.float32] = scipy.fft.irfft(spectrum, size)[: len(audio)]
    return wet
