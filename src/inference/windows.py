"""Cutting sound into windows, in memory that does not grow with the file.

Axes: W windows, S samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

from ..audio import audio_length, hop_samples, iterate_blocks, num_sliding_windows

Samples = npt.NDArray[np.float32]

_BLOCK_WINDOWS = 16
_SILENCE = 1e-4
"""Peak (-80 dB) up to which a sound is silent: a little above the last bits of 16."""
LEAD = 0.2
"""Share of the common part of two windows that still belongs to the first."""


class Windows(NamedTuple):
    """The windows of a song."""

    length: int
    """Samples of the song at the rate of the windows."""
    hop: int
    """Samples between the starts of two windows."""
    num_windows: int
    pieces: Iterator[Samples]
    """Arrays ``(w, S)`` float32 of a few windows each, ``num_windows`` in all."""

    def starts(self) -> npt.NDArray[np.int64]:
        """First sample of each window."""
        return np.arange(self.num_windows, dtype=np.int64) * self.hop

    def seams(self, segment_samples: int) -> npt.NDArray[np.int64]:
        """Sample from which on each window is believed.

        Of what two windows share the first keeps most: a sequence knows less of its first moments, where
        it sees no past, than of the middle, and least of its end.
        """
        seams = self.starts() + round(LEAD * (segment_samples - self.hop))
        seams[:1] = 0
        return seams


def iterate_windows(
    source: str | Path | npt.ArrayLike,
    segment_samples: int,
    sample_rate: int,
    source_rate: int | None = None,
    overlap: float = 0.0,
) -> Windows:
    """Windows of a file or an array from sample 0 on, the last one padded with zeros.

    Args:
        source: the path of an audio file, read piece by piece; or samples ``(samples,)``,
            ``(samples, channels)`` or ``(channels, samples)`` (the longer axis is time).
        segment_samples: length of a window.
        sample_rate: rate of the windows in Hz.
        source_rate: rate of an array; ``None`` means ``sample_rate``. Files know their own.
        overlap: share of a window that the next one hears again; 0 is back to back.
    """
    hop = hop_samples(segment_samples, overlap)
    blocks: Iterable[Samples]
    if isinstance(source, (str, Path)):
        length = audio_length(source, sample_rate)
        blocks = iterate_blocks(source, _BLOCK_WINDOWS * segment_samples, sample_rate)
        blocks = _listened(source, blocks, length)
    else:
        audio = as_mono(source)
        if source_rate is not None and source_rate != sample_rate:
            if source_rate <= 0:
                raise ValueError(f"a sample rate must be positive, not {source_rate}")
            audio = np.asarray(soxr.resample(audio, source_rate, sample_rate, quality="HQ"), dtype=np.float32)
        length, blocks = len(audio), [audio]
    count = num_sliding_windows(length, segment_samples, hop)
    return Windows(length, hop, count, _slide(blocks, segment_samples, hop, count))


def _listened(path: str | Path, blocks: Iterable[Samples], length: int) -> Iterator[Samples]:
    """The blocks of a file of ``length`` samples; with the last a warning when there is nothing to hear."""
    left, unheard = length, True
    for block in blocks:
        left -= len(block)
        unheard = unheard and not bool((np.abs(block) > _SILENCE).any())
        if unheard and left <= 0:  # now, as the song may be complete with these samples
            unheard = False
            _say_silent(path, length)
        yield block
    if unheard:
        _say_silent(path, length)


def _say_silent(path: str | Path, length: int) -> None:
    warnings.warn(f"{path}: the sound is {'silent' if length else 'empty'}", UserWarning, stacklevel=3)


def _slide(blocks: Iterable[Samples], size: int, hop: int, count: int) -> Iterator[Samples]:
    """``count`` windows of ``size`` every ``hop`` samples; zeros where the sound ends early."""
    held: Samples = np.zeros(0, dtype=np.float32)
    given = 0
    for block in blocks:
        held = np.concatenate((held, block)) if len(held) else block
        ready = min(count - given, (len(held) - size) // hop + 1 if len(held) >= size else 0)
        if ready > 0:
            views = np.lib.stride_tricks.sliding_window_view(held, size)[::hop][:ready]
            for first in range(0, ready, _BLOCK_WINDOWS):
                yield views[first : first + _BLOCK_WINDOWS].copy()
            given += ready
            held = held[ready * hop :]
    while given < count:
        window = np.zeros((1, size), dtype=np.float32)
        part = held[:size]
        window[0, : len(part)] = part
        yield window
        given += 1
        held = held[hop:]


def as_mono(audio: npt.ArrayLike) -> Samples:
    """Samples as float32 mono in [-1, 1]: integers scaled, channels averaged, NaN and Inf set to zero."""
    array = np.asarray(audio)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u":
            raise ValueError("audio arrays must be float or signed integer")
        array = array.astype(np.float32) / float(-np.iinfo(array.dtype).min)
    elif array.dtype.kind != "f":
        raise ValueError(f"audio arrays must be float or signed integer, not {array.dtype}")
    array = np.atleast_1d(np.squeeze(array))
    if array.ndim > 2:
        raise ValueError(f"audio has {array.ndim} axes; expected (samples,) or two with one for channels")
    if array.ndim == 2:
        array = array.mean(axis=0 if array.shape[0] < array.shape[1] else 1)
    mono = np.nan_to_num(array.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(mono, -1.0, 1.0)
