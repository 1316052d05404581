"""How far labels lie from what is heard: onset energy of the sound against the onsets of the notes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HOP = 80
"""Samples between frames: 5 ms at 16 kHz."""
FRAME = 512
_BANDS = 24
_LOWEST = 60.0
_BLOCK = 4096
"""Frames looked at together."""
_RISE = 3
"""Frames over which energy rises."""
SEARCH_MS = 300.0
"""Shifts up to this are found."""
MIN_ONSETS = 12
"""Fewer onsets tell nothing."""
MIN_CLARITY = 5.0
"""Height of the best shift over the middle one, in spreads of all; less is guessing."""

Floats = npt.NDArray[np.float64]


def onset_strength(audio: npt.NDArray[np.float32], sample_rate: int = 16000) -> Floats:
    """(samples,) to (frames,): rise of the log energy over ``_BANDS`` bands, at frame centres ``HOP`` apart.

    Spectral flux, as in Boeck et al. 2012 (Evaluating the online capabilities of onset detection methods).
    """
    window = np.hanning(FRAME + 1)[:FRAME].astype(np.float32)
    padded = np.pad(audio, FRAME // 2)
    count = 1 + len(audio) // HOP
    frequencies = np.fft.rfftfreq(FRAME, 1 / sample_rate)
    edges = np.geomspace(_LOWEST, sample_rate / 2, _BANDS + 1)
    places = np.maximum.accumulate(np.searchsorted(frequencies, edges))
    places = np.unique(np.minimum(places, len(frequencies) - 1))
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP][:count]
    levels = []
    for begin in range(0, len(frames), _BLOCK):
        power = np.abs(np.fft.rfft(frames[begin : begin + _BLOCK] * window)) ** 2
        levels.append(np.log10(1e-3 + np.add.reduceat(power, places, axis=1)))
    level = np.concatenate(levels)
    rise = np.zeros(len(level))
    half = _RISE // 2
    if len(level) > _RISE:
        rise[half + 1 : len(level) - half] = np.maximum(level[_RISE:] - level[:-_RISE], 0).sum(axis=1)
    return rise


def estimate_shift(
    strength: Floats, onsets: npt.NDArray[np.float64], sample_rate: int = 16000
) -> tuple[float, float] | None:
    """Milliseconds by which labels are late (negative: early), and how clear that is; None when nobody knows.

    The mean onset strength at the labels, moved by every shift up to ``SEARCH_MS``, is highest where the
    labels fit.

    Args:
        strength: of :func:`onset_strength`.
        onsets: seconds.
        sample_rate: in Hz.
    """
    step_ms = 1000 * HOP / sample_rate
    reach = round(SEARCH_MS / step_ms)
    places = np.unique(np.rint(onsets * sample_rate / HOP).astype(np.int64))
    places = places[places < len(strength)]
    if len(places) < MIN_ONSETS:
        return None
    middle = np.median(strength)
    capped = np.minimum(strength, np.quantile(strength, 0.98)) - middle  # one loud hit must not decide
    padded = np.pad(capped, reach)
    fits = np.array([padded[places + reach + lag].mean() for lag in range(-reach, reach + 1)])
    fits = np.convolve(fits, np.ones(3) / 3, "same")
    best = 1 + int(np.argmax(fits[1:-1]))
    spread = 1.4826 * float(np.median(np.abs(fits - np.median(fits)))) + 1e-12
    clarity = float((fits[best] - np.median(fits)) / spread)
    left, here, right = fits[best - 1 : best + 2]
    bend = left - 2 * here + right
    exact = best + (0.5 * (left - right) / bend if bend < 0 else 0.0)
    return -(exact - reach) * step_ms, clarity
