"""The samples of a song on disk: one array of 16-bit stems, or one FLAC file per stem.

The array can be memory mapped and read at any place for the price of its bytes. FLAC takes about half the
room and several times the CPU time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from .patience import unreadable
from .store_format import StemArray, StoreError, missing_file, read_array

ARRAY = "npy"
FLAC = "flac"
CODINGS = (ARRAY, FLAC)
ARRAY_FILE = "stems.npy"
_SYSTEM_ERROR = 2
"""libsndfile's number for an error of the file system; which one, it does not tell."""


def flac_file(folder: Path, stem: int) -> Path:
    """The file of one stem of a song in FLAC."""
    return folder / f"stem{stem:02d}.flac"


def write_stems(folder: Path, stems: StemArray, coding: str, sample_rate: int) -> None:
    """Write int16 (stems, samples) into a song's folder."""
    if coding == ARRAY:
        np.save(folder / ARRAY_FILE, stems, allow_pickle=False)
        return
    for number, stem in enumerate(stems):
        soundfile.write(flac_file(folder, number), stem, sample_rate, subtype="PCM_16")


def open_stems(folder: Path, coding: str, num_stems: int, num_samples: int) -> StemArray:
    """All stems, int16 (stems, samples): memory mapped, or decoded from FLAC."""
    if num_samples == 0 or num_stems == 0:
        return np.zeros((num_stems, num_samples), dtype=np.int16)
    if coding == FLAC:
        return read_part(folder, coding, (num_stems, num_samples), 0, num_samples, range(num_stems))
    path = folder / ARRAY_FILE
    stems: StemArray = read_array(path, "r")
    if stems.dtype != np.int16 or stems.shape != (num_stems, num_samples):
        raise StoreError(
            f"{path}: holds {stems.dtype} {stems.shape}, the index says int16 "
            f"{(num_stems, num_samples)}; prepare the store again"
        )
    return stems


def read_part(
    folder: Path, coding: str, shape: tuple[int, int], start: int, stop: int, chosen: Sequence[int]
) -> StemArray:
    """Samples ``start`` to ``stop`` of the chosen stems, int16 (chosen, stop - start), zeros outside.

    Args:
        folder: of the song.
        coding: ``npy`` or ``flac``.
        shape: stems and samples of the song, as the index says.
        start: first sample; may be negative.
        stop: sample after the last one; may lie beyond the end.
        chosen: numbers of the stems.
    """
    out = np.empty((len(chosen), max(stop - start, 0)), dtype=np.int16)
    for row, samples in zip(out, each_part(folder, coding, shape, start, stop, chosen), strict=True):
        row[:] = samples
    return out


def each_part(
    folder: Path, coding: str, shape: tuple[int, int], start: int, stop: int, chosen: Sequence[int]
) -> Iterator[npt.NDArray[np.int16]]:
    """As :func:`read_part`, stem by stem in one buffer: each row (stop - start,) is good until the next.

    Reads just the bytes that are asked for, and keeps no handle beyond the last stem. The samples stay in the
    processor's cache, which takes a third off the time.
    """
    low, high = max(start, 0), min(stop, shape[1])
    row = np.zeros(max(stop - start, 0), dtype=np.int16)
    inside = row[low - start : high - start]
    if high <= low or not len(chosen):
        for _ in chosen:
            yield row
    elif coding == FLAC:
        for stem in chosen:
            _read_flac(flac_file(folder, stem), shape[1], low, inside)
            yield row
    else:
        handle, offset = _open_array(folder / ARRAY_FILE, shape)
        try:
            for stem in chosen:
                _fill(handle, inside, offset + 2 * (stem * shape[1] + low), folder / ARRAY_FILE)
                yield row
        finally:
            os.close(handle)


def _open_array(path: Path, shape: tuple[int, int]) -> tuple[int, int]:
    """File handle of an array that has the shape of the index, and where its samples begin."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise missing_file(path) from None
    except OSError as error:
        raise unreadable(error, path) from None
    try:
        offset, size = data_offset(handle), os.fstat(handle).st_size
    except OSError as error:
        os.close(handle)
        raise unreadable(error, path) from None
    if size != offset + 2 * shape[0] * shape[1]:
        os.close(handle)
        raise StoreError(
            f"{path}: its size does not fit {shape[0]} stems of {shape[1]} samples, "
            "as the index says; prepare the store again"
        )
    return handle, offset


def _fill(handle: int, row: npt.NDArray[np.int16], position: int, path: Path) -> None:
    target = row.view(np.uint8).data
    try:
        done = os.preadv(handle, [target], position)
        while done < len(target):
            more = os.preadv(handle, [target[done:]], position + done)
            if more == 0:
                raise StoreError(f"{path}: the file ends early; prepare the store again")
            done += more
    except OSError as error:
        raise unreadable(error, path) from None


def _read_flac(path: Path, num_samples: int, low: int, row: StemArray) -> None:
    try:
        with soundfile.SoundFile(path) as file:
            if file.frames != num_samples or file.channels != 1:
                raise StoreError(
                    f"{path}: has {file.frames} samples, the index says {num_samples}; "
                    "prepare the store again"
                )
            file.seek(low)
            read = len(file.read(out=row))
    except soundfile.SoundFileError as error:
        if getattr(error, "code", None) == _SYSTEM_ERROR:
            raise _file_error(path) from None
        raise StoreError(f"{path}: cannot be read as FLAC ({error}); prepare the store again") from None
    if read != len(row):
        raise StoreError(f"{path}: the file ends early; prepare the store again")


def _file_error(path: Path) -> ValueError:
    """What is wrong with a file that libsndfile cannot open or read."""
    try:
        path.stat()
    except FileNotFoundError:
        return missing_file(path)
    except OSError as error:
        return unreadable(error, path)
    return unreadable(OSError(errno.EIO, os.strerror(errno.EIO)), path)


def data_offset(handle: int) -> int:
    """Where the values begin in an ``.npy`` file; -1 for another file."""
    head = os.pread(handle, 12, 0)
    if len(head) < 12 or head[:6] != b"\x93NUMPY":
        return -1
    return (
        10 + int.from_bytes(head[8:10], "little")
        if head[6] == 1
        else 12 + int.from_bytes(head[8:12], "little")
    )
