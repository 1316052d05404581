"""Window counts at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from amt.audio import cut_windows, num_windows


@pytest.mark.parametrize(
    ("samples", "windows"), [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 3)]
)
def test_window_counts(samples: int, windows: int) -> None:
    audio = np.arange(1, samples + 1, dtype=np.float32)
    cut = cut_windows(audio, 1000)
    assert cut.shape == (windows, 1000)
    assert num_windows(samples, 1000) == windows
    np.testing.assert_array_equal(cut.reshape(-1)[:samples], audio)
    assert not cut.reshape(-1)[samples:].any()
