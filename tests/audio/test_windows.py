"""Window counts at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from amt.audio import cut_windows, hop_samples, num_sliding_windows, num_windows


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


@pytest.mark.parametrize("hop", [1, 16384, 32767])
@pytest.mark.parametrize("samples", [0, 1, 1000, 16384, 32766, 32767, 32768, 49151, 49152, 65534, 65535])
def test_sliding_windows_cover_all_and_none_adds_nothing(samples: int, hop: int) -> None:
    """Case D44: a file that is shorter than a window has one."""
    count = num_sliding_windows(samples, 32767, hop)
    assert count >= 1
    assert (count - 1) * hop + 32767 >= samples
    assert count == 1 or (count - 2) * hop + 32767 < samples


def test_hops() -> None:
    assert [hop_samples(1000, overlap) for overlap in (0.0, 0.25, 0.5, 0.9999)] == [1000, 750, 500, 1]
