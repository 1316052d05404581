"""Change of duration without change of pitch: overlap-add of frames that are aligned by their waveform.

WSOLA (Verhelst and Roelands 1993): every output frame is taken near the place where it belongs, at the lag
where it continues the frame before it best.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FRAME = 512
"""Samples of a frame: two periods of a low E at 16 kHz."""
HOP = FRAME // 2
SEARCH = 104
"""Largest lag in samples: 6.5 ms at 16 kHz, half a period of low notes, and little enough for onsets."""
REFINE = 2
"""The search runs at half the rate; these samples around its result are looked at in full."""

FloatArray = npt.NDArray[np.float32]


def stretch(audio: FloatArray, factor: float) -> FloatArray:
    """(n,) float32 to (ceil(n factor),): longer for factors above 1, of the same pitch and level."""
    size = math.ceil(len(audio) * factor)
    if factor == 1.0 or not len(audio) or not audio.any():
        return audio.copy() if factor == 1.0 else np.zeros(size, dtype=np.float32)
    pad = FRAME + SEARCH + HOP
    padded = np.pad(audio, (pad, pad + FRAME))
    half = 0.5 * (padded[0 : len(padded) // 2 * 2 : 2] + padded[1::2])
    energy = np.concatenate(([0.0], np.cumsum(np.square(half, dtype=np.float64))))
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)).astype(np.float32)
    count = -(-size // HOP) + 1
    out = np.zeros((count + 1) * HOP, dtype=np.float32)
    centres = np.rint(np.arange(count) * HOP / factor).astype(np.int64) + pad - HOP
    places = np.minimum(centres, len(padded) - FRAME - SEARCH - REFINE - 1).tolist()
    place = places[0]
    for number, nominal in enumerate(places):
        if number:
            place = _best_place(padded, half, energy, min(place + HOP, len(padded) - FRAME), nominal)
        out[number * HOP : number * HOP + FRAME] += window * padded[place : place + FRAME]
    return out[HOP : HOP + size]


def _best_place(
    padded: FloatArray, half: FloatArray, energy: npt.NDArray[np.float64], follow: int, nominal: int
) -> int:
    """Start of the frame near ``nominal`` that is most like the one at ``follow``."""
    width = FRAME // 2
    first = (nominal - SEARCH) // 2
    template = half[follow // 2 : follow // 2 + width]
    power = energy[follow // 2 + width] - energy[follow // 2]
    if power <= 1e-9:
        return nominal
    likeness = np.correlate(half[first : first + SEARCH + width], template, "valid")
    floor = 1e-3 * power
    norms = energy[first + width : first + SEARCH + width + 1] - energy[first : first + SEARCH + 1]
    best = 2 * (first + int((likeness / np.sqrt(norms + floor)).argmax()))
    around = padded[best - REFINE : best + REFINE + FRAME]
    return best - REFINE + int(np.correlate(around, padded[follow : follow + FRAME], "valid").argmax())
