"""Loudness: gains of stems and of the mix, and the guard against clipping."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def draw_gains(
    rng: np.random.Generator, count: int, amp_range: tuple[float, float]
) -> npt.NDArray[np.float32]:
    """``count`` linear gains, uniform in ``amp_range``."""
    low, high = amp_range
    return rng.uniform(low, high, count).astype(np.float32)


def guard_clipping(audio: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Audio scaled down, in place, just enough to stay within [-1, 1]; quieter audio is left alone."""
    peak = float(np.abs(audio).max(initial=0.0))
    if peak > 1.0:
        audio *= np.float32(1.0 / peak)
    return audio
