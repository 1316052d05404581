"""Random smooth equalisation: a shelf or a wide peak."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.signal

MAX_DB = 9.0
"""Largest boost or cut."""
_OFFSET = np.float32(1e-9)
"""Far below hearing; keeps the filter's memory of silence out of the denormal numbers, ten times slower."""


def draw_filter(rng: np.random.Generator, sample_rate: int) -> npt.NDArray[np.float32]:
    """A random second-order section (6,), numerator then denominator: low shelf, high shelf or peak.

    Boosts or cuts by at most 9 dB. Formulas after R. Bristow-Johnson's audio EQ cookbook.
    """
    kind = int(rng.integers(3))
    gain_db = float(rng.uniform(-MAX_DB, MAX_DB))
    frequency = float(np.exp(rng.uniform(math.log(120.0), math.log(0.35 * sample_rate))))
    width = float(rng.uniform(0.4, 1.2))
    amplitude = 10.0 ** (gain_db / 40.0)
    omega = 2.0 * math.pi * frequency / sample_rate
    cosine, bend = math.cos(omega), math.sin(omega) / (2.0 * width)
    if kind == 0:
        upper = (1 + bend * amplitude, -2 * cosine, 1 - bend * amplitude)
        lower = (1 + bend / amplitude, -2 * cosine, 1 - bend / amplitude)
    else:
        sign = 1.0 if kind == 1 else -1.0
        root = 2.0 * math.sqrt(amplitude) * bend
        plus, minus = amplitude + 1, amplitude - 1
        upper = (
            amplitude * (plus - sign * minus * cosine + root),
            sign * 2 * amplitude * (minus - sign * plus * cosine),
            amplitude * (plus - sign * minus * cosine - root),
        )
        lower = (
            plus + sign * minus * cosine + root,
            -sign * 2 * (minus + sign * plus * cosine),
            plus + sign * minus * cosine - root,
        )
    return np.array([*upper, *lower], dtype=np.float32) / np.float32(lower[0])


def equalise(
    audio: npt.NDArray[np.float32], rng: np.random.Generator, sample_rate: int
) -> npt.NDArray[np.float32]:
    """(n,) float32 through a random filter; same length, no delay of onsets."""
    section = draw_filter(rng, sample_rate)
    filtered: npt.NDArray[np.float32] = scipy.signal.lfilter(section[:3], section[3:], audio + _OFFSET)
    return filtered
