"""A file without anything to hear says so once it is read."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.inference.windows import iterate_windows


def said_of(path: Path, samples: np.ndarray) -> list[str]:
    soundfile.write(path, samples, 16000, subtype="PCM_16")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in iterate_windows(path, 8000, 16000).pieces:
            pass
    return [str(item.message) for item in caught]


@pytest.mark.parametrize(
    ("length", "loudest", "said"),
    [
        (20000, 0.0, "{}: the sound is silent"),
        (20000, 1.0 / 32768, "{}: the sound is silent"),
        (0, 0.0, "{}: the sound is empty"),
        (20000, 0.01, None),
    ],
)
def test_silence_and_emptiness_are_said(
    tmp_path: Path, length: int, loudest: float, said: str | None
) -> None:
    path = tmp_path / "song.wav"
    samples = np.zeros(length, np.float32)
    samples[-100:] = loudest
    assert said_of(path, samples) == ([] if said is None else [said.format(path)])


def test_it_is_said_before_the_song_can_be_complete(tmp_path: Path) -> None:
    """Who takes the notes of a song with its last window must have the words by then."""
    path = tmp_path / "song.wav"
    soundfile.write(path, np.zeros(16000), 16000)
    pieces = iterate_windows(path, 8000, 16000).pieces
    with pytest.warns(UserWarning, match="the sound is silent"):
        assert next(pieces).shape == (2, 8000)
