"""Cutting audio into windows of one length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def num_windows(num_samples: int, segment_samples: int) -> int:
    """Windows that cover ``num_samples``, back to back; at least one."""
    return max(1, -(-num_samples // segment_samples))


def cut_windows(audio: npt.NDArray[np.float32], segment_samples: int) -> npt.NDArray[np.float32]:
    """Audio (samples,) as windows (W, S) back to back from sample 0, the last one padded with zeros.

    There is at least one window; a length that is an exact multiple gives no extra one.
    """
    count = num_windows(len(audio), segment_samples)
    missing = count * segment_samples - len(audio)
    if missing:
        audio = np.concatenate((audio, np.zeros(missing, dtype=audio.dtype)))
    return audio.reshape(count, segment_samples)


def hop_samples(segment_samples: int, overlap: float) -> int:
    """Samples between the starts of windows that share ``overlap`` (0 to below 1) of their length."""
    assert 0 <= overlap < 1
    return max(1, round(segment_samples * (1.0 - overlap)))


def num_sliding_windows(num_samples: int, segment_samples: int, hop: int) -> int:
    """Windows every ``hop`` samples that cover ``num_samples``; at least one, and none that adds nothing."""
    return 1 + max(0, -(-(num_samples - segment_samples) // hop))
