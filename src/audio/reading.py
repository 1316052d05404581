"""Any audio file in, float32 mono at the wanted rate out; whole, in part, or in blocks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from .quiet import quiet_decoder

Samples = npt.NDArray[np.float32]
"""(samples,) float32 mono."""

_SEEKABLE = frozenset({"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC"})
"""Formats where a seek lands on the right sample. libsndfile's MP3 seek does not, so others are decoded
from their start, as are the few codings of these formats that cannot seek, such as GSM in WAV."""
AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff", ".m4a", ".w64"})
_READ_FRAMES = 1 << 17
_BROKEN = 1e5
"""A sample beyond this is damage, not loudness, and becomes 0 as NaN does."""
_MISSING_SECONDS = 0.05
"""A file may end this much before its header says; more is worth a word."""
_HEADER_BYTES = 4096
_NOT_THERE = "File does not exist"
"""What libsndfile also says of a file whose name ends like that of an MP3 and that holds none."""
_LOUD = 2.0
"""Clipping is mentioned from this peak on; lossy codecs overshoot 1.0 a little all the time."""


class AudioError(ValueError):
    """A file that cannot be read as audio; the message names it."""


@dataclass(frozen=True)
class AudioInfo:
    """What the header of an audio file says."""

    sample_rate: int
    channels: int
    frames: int
    """Length in samples at the file's own rate."""
    container: str
    """Format by content (not by name), such as ``WAV`` or ``MP3``."""


def audio_info(path: str | Path) -> AudioInfo:
    """Header of an audio file. Raises :class:`AudioError`."""
    with _opened(path) as file:
        return AudioInfo(int(file.samplerate), int(file.channels), int(file.frames), str(file.format))


def audio_length(path: str | Path, sample_rate: int = 16000) -> int:
    """Samples :func:`read_audio` gives for the whole file. Reads the header only."""
    info = audio_info(path)
    return _converted_length(info.frames, info.sample_rate, sample_rate)


def looks_like_audio(path: str | Path) -> bool:
    """Whether the ending of a file's name is that of audio, whatever it holds."""
    return Path(path).suffix.lower() in AUDIO_SUFFIXES


def is_audio_file(path: str | Path) -> bool:
    """Whether the content of a file (its name does not matter) is audio that can be read."""
    try:
        audio_info(path)
    except AudioError:
        return False
    return True


def read_audio(
    path: str | Path,
    sample_rate: int = 16000,
    start: int = 0,
    stop: int | None = None,
    *,
    channel: int | None = None,
) -> Samples:
    """Read a file, or samples ``start`` to ``stop`` of it, as float32 mono in [-1, 1].

    Channels are averaged, other rates are resampled (soxr, high quality). A part equals the same part of the
    whole. NaN, Inf and absurdly large samples become 0, and samples beyond 1 are clipped, with one warning,
    which also says when a file ends before its header does. A file with a header alone gives an empty array.

    Args:
        path: any file libsndfile reads, recognised by its content.
        sample_rate: rate of the result in Hz; ``start`` and ``stop`` are counted at this rate.
        start: first sample.
        stop: end, exclusive; None is the end of the file.
        channel: this one alone instead of the average.

    Raises:
        AudioError: the file is missing, is no audio, is damaged or lacks the channel; the message names it.
    """
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"{path}: cannot read samples {start} to {stop}")
    whole = start == 0 and stop is None
    with _opened(path) as file:
        if channel is not None and not 0 <= channel < file.channels:
            raise AudioError(f"{path}: has {file.channels} channels; there is no channel {channel}")
        rate = int(file.samplerate)
        length = _converted_length(int(file.frames), rate, sample_rate)
        stop = length if stop is None else min(stop, length)
        if stop <= start and length:
            return np.zeros(0, dtype=np.float32)
        divisor = gcd(rate, sample_rate)
        step_in, step_out = rate // divisor, sample_rate // divisor
        # Both rates meet every step_in samples; starting there keeps the resampler's phase that of the whole.
        margin = 0 if rate == sample_rate else 64 + 256 * max(1, step_in // step_out)
        first = max(0, (start * step_in // step_out - margin) // step_in) * step_in
        last = None if whole else stop * step_in // step_out + 1 + margin
        skipped = first // step_in * step_out
        parts: list[Samples] = list(
            _resampled(_mono_blocks(file, path, first, last, channel), rate, sample_rate)
        )
    audio = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
    audio = audio[start - skipped : stop - skipped]
    if len(audio) < stop - start and not whole:
        audio = np.pad(audio, (0, stop - start - len(audio)))
    return np.clip(audio, -1.0, 1.0)


def iterate_blocks(path: str | Path, block_samples: int, sample_rate: int = 16000) -> Iterator[Samples]:
    """The same samples as :func:`read_audio` in blocks of ``block_samples`` (the last one shorter).

    Memory does not grow with the length of the file.
    """
    if block_samples < 1:
        raise ValueError(f"block_samples must be at least 1, not {block_samples}")
    waiting: list[Samples] = []
    held = 0
    with _opened(path) as file:
        rate = int(file.samplerate)
        left = _converted_length(int(file.frames), rate, sample_rate)
        for part in _resampled(_mono_blocks(file, path, 0, None), rate, sample_rate):
            part = np.clip(part[:left], -1.0, 1.0)
            left -= len(part)
            waiting.append(part)
            held += len(part)
            if held < block_samples:
                continue
            joined = np.concatenate(waiting)
            whole = held - held % block_samples
            for begin in range(0, whole, block_samples):
                yield joined[begin : begin + block_samples]
            waiting = [joined[whole:]]
            held -= whole
    if held:
        yield np.concatenate(waiting)


def _converted_length(frames: int, rate: int, sample_rate: int) -> int:
    return -(-frames * sample_rate // rate)


@contextmanager
def _opened(path: str | Path) -> Iterator[soundfile.SoundFile]:
    if not os.path.exists(path):
        raise AudioError(f"{path}: there is no such audio file")
    if not os.path.isfile(path):
        raise AudioError(f"{path}: is no file but a folder or device")
    if os.path.getsize(path) == 0:
        raise AudioError(f"{path}: the file is empty (0 bytes)")
    try:
        with quiet_decoder():
            file = soundfile.SoundFile(os.fsencode(path))
    except (soundfile.SoundFileError, RuntimeError, TypeError, OSError) as error:
        reason = str(error).rpartition(": ")[2].strip()
        if reason.startswith(_NOT_THERE):
            raise AudioError(f"{path}: is no sound file that can be read") from None
        raise AudioError(f"{path}: cannot be read as audio ({reason})") from None
    try:
        yield file
    except soundfile.SoundFileError as error:
        reason = str(error).rpartition(": ")[2].strip()
        raise AudioError(f"{path}: is damaged and cannot be read to its end ({reason})") from None
    finally:
        file.close()


def _mono_blocks(
    file: soundfile.SoundFile, path: str | Path, first: int, last: int | None, channel: int | None = None
) -> Iterator[Samples]:
    """Repaired mono blocks of the frames ``first`` to ``last`` at the file's own rate."""
    if not file.frames and os.path.getsize(path) > _HEADER_BYTES:  # a recording or a download cut short
        raise AudioError(
            f"{path}: its header says that it holds no samples, yet it is not empty: write it anew"
        )
    kind = "float64" if file.subtype == "DOUBLE" else "float32"
    position = 0
    if first and file.format in _SEEKABLE and file.seekable():
        position = int(file.seek(min(first, int(file.frames))))
    bad = 0
    peak = 0.0
    while last is None or position < last:
        wanted = _READ_FRAMES if last is None else min(_READ_FRAMES, last - position)
        block: npt.NDArray[np.float64] | Samples
        with quiet_decoder() if file.format == "MP3" else nullcontext():
            block = file.read(wanted, dtype=kind, always_2d=True)
        if len(block) == 0:
            break
        skip = max(0, first - position)
        position += len(block)
        if skip >= len(block):
            continue
        block = block[skip:] if channel is None else block[skip:, channel : channel + 1]
        top = float(np.abs(block).max())
        if not top <= _BROKEN:
            wrong = ~(np.abs(block) <= _BROKEN)
            bad += int(wrong.sum())
            block[wrong] = 0.0
            top = float(np.abs(block).max())
        peak = max(peak, top)
        yield (block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)).astype(np.float32)
    said = []
    rate, held = int(file.samplerate), int(file.frames)
    expected = held if last is None else min(last, held)
    if position < expected - _MISSING_SECONDS * rate:
        said.append(
            f"it ends after {position / rate:.2f} s, its header says {held / rate:.2f} s: it is damaged"
        )
    if bad:
        said.append(f"{bad} samples are not numbers or absurdly large and were replaced by 0")
    if peak > _LOUD:
        said.append(f"samples reach {peak:.4g} and were clipped to 1")
    if said:
        warnings.warn(f"{path}: {'; '.join(said)}", UserWarning, stacklevel=4)


def _resampled(blocks: Iterator[Samples], rate: int, sample_rate: int) -> Iterator[Samples]:
    if rate == sample_rate:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate, sample_rate, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True)
