"""What telephones, lossy files and cheap converters do to a recording; onsets and level hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

KINDS = ("band", "mu_law", "transform")
BLOCK = 512
"""Samples of a block of the transform coder."""
BANDS = 16
"""Its bands, equally wide in bins on a square-root scale, so that low ones are narrow."""

FloatArray = npt.NDArray[np.float32]


def add_codec(audio: FloatArray, rng: np.random.Generator, sample_rate: int) -> FloatArray:
    """(n,) float32 through a random codec: a narrow band, 8 bit mu-law, or a coarse transform coder."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    if not len(audio) or not audio.any():
        return audio
    if kind == "band":
        low, high = float(rng.uniform(30.0, 300.0)), float(rng.uniform(3000.0, 0.47 * sample_rate))
        return band_limit(audio, low, high, sample_rate)
    if kind == "mu_law":
        return mu_law(audio, int(rng.integers(6, 9)))
    return transform_code(audio, float(rng.uniform(12.0, 30.0)), float(rng.uniform(0.5, 1.0)))


def band_limit(audio: FloatArray, low_hz: float, high_hz: float, sample_rate: int) -> FloatArray:
    """Only what lies between two frequencies, with edges of a third of an octave and no delay."""
    size = scipy.fft.next_fast_len(len(audio) + sample_rate // 20, real=True)
    spectrum = scipy.fft.rfft(audio, size)
    octave = np.log2(np.maximum(np.arange(len(spectrum), dtype=np.float32) * (sample_rate / size), 1.0))
    gain = np.clip(3.0 * (octave - np.float32(np.log2(low_hz))) + 1.0, 0.0, 1.0)
    gain *= np.clip(3.0 * (np.float32(np.log2(high_hz)) - octave) + 1.0, 0.0, 1.0)
    spectrum *= gain.astype(np.float32)
    limited: FloatArray = scipy.fft.irfft(spectrum, size)[: len(audio)]
    return limited


def mu_law(audio: FloatArray, bits: int) -> FloatArray:
    """Quantised in steps that grow with the level (ITU-T G.711, mu = 255), relative to the peak."""
    peak = float(np.abs(audio).max())
    levels = 2 ** (bits - 1) - 1
    curve = np.log1p(np.abs(audio) * np.float32(255.0 / peak)) * np.float32(levels / np.log(256.0))
    steps = np.expm1(np.rint(curve) * np.float32(np.log(256.0) / levels))
    coded: FloatArray = np.copysign(steps * np.float32(peak / 255.0), audio)
    return coded


def transform_code(audio: FloatArray, depth_db: float, bandwidth: float) -> FloatArray:
    """What a coder of few bits leaves: in every block, parts ``depth_db`` below the strongest of their band,
    and all above ``bandwidth`` of the spectrum, are gone."""
    window = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(BLOCK) / BLOCK)).astype(np.float32)
    hop = BLOCK // 2
    count = len(audio) // hop + 2
    padded = np.zeros((count + 1) * hop, dtype=np.float32)
    padded[hop : hop + len(audio)] = audio
    blocks = np.lib.stride_tricks.sliding_window_view(padded, BLOCK)[::hop] * window
    spectrum = scipy.fft.rfft(blocks, axis=1)
    edges = _band_edges()
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    strongest = np.repeat(np.maximum.reduceat(power, edges, axis=1), _band_widths(), axis=1)
    spectrum *= power >= strongest * np.float32(10.0 ** (-depth_db / 10.0))
    spectrum[:, int(bandwidth * (BLOCK // 2)) + 1 :] = 0.0
    blocks = scipy.fft.irfft(spectrum, BLOCK, axis=1) * window
    out = np.zeros_like(padded)
    out[: count * hop] += blocks[:, :hop].reshape(-1)
    out[hop:] += blocks[:, hop:].reshape(-1)
    return out[hop : hop + len(audio)]


@lru_cache(maxsize=1)
def _band_edges() -> npt.NDArray[np.int64]:
    edges = np.square(np.linspace(0.0, np.sqrt(BLOCK // 2 + 1), BANDS, endpoint=False))
    return np.unique(edges.astype(np.int64))


def _band_widths() -> npt.NDArray[np.int64]:
    return np.diff(np.append(_band_edges(), BLOCK // 2 + 1))
