"""The same song twice: fingerprints of sound and of note sequences, and pairs of songs that share them.

Sound (Haitsma and Kalker 2002): 32 bits a frame, each the sign of how the energy difference of neighbouring
bands changes in time. Level, coding, equalisation and some noise leave most of them as they are; two songs
are the same where less than a third of the bits differ over ``MIN_FRAMES`` frames. Notes: the passages of
``GRAM`` intervals that one instrument plays, so that tempo, key and small shifts do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..notes.note import NoteArray, note_programs

FRAME = 4096
HOP = 512
"""Samples between frames: 32 ms at 16 kHz."""
MIN_FRAMES = 250
"""Frames that two songs must share (8 s), or the whole of the shorter one."""
MAX_DIFFERENCE = 0.33
"""Share of bits; unrelated sound differs in half of them."""
GRAM = 12
MIN_GRAMS = 20
"""Passages that a song needs for its notes to tell it from others."""
MIN_SHARED = 0.7
"""Share of the passages of the song that has fewer."""
_BITS = 32
_LOWEST, _HIGHEST = 300.0, 2000.0
_SAMPLED_PRINTS, _SAMPLED_GRAMS = 16, 2
"""One in so many is looked up; which, its value decides."""
_COMMON = 64
"""Values that more places have tell nothing."""
_HITS = 4
"""Prints with one offset that make a pair worth comparing bit by bit."""
_MIX = np.uint64(0x9E3779B97F4A7C15)

Prints = npt.NDArray[np.uint32]
"""(frames,) 32 bits each; 0 in silence."""
Grams = npt.NDArray[np.uint64]
"""Sorted hashes of passages."""


def sound_prints(audio: npt.NDArray[np.float32], sample_rate: int = 16000) -> Prints:
    """(samples,) to a print for each frame but the first."""
    if len(audio) < FRAME + HOP:
        return np.zeros(0, dtype=np.uint32)
    frequencies = np.fft.rfftfreq(FRAME, 1 / sample_rate)
    places = np.searchsorted(frequencies, np.geomspace(_LOWEST, _HIGHEST, _BITS + 2))
    window = np.hanning(FRAME).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(audio, FRAME)[::HOP]
    energies = []
    for begin in range(0, len(frames), 1024):
        power = np.abs(np.fft.rfft(frames[begin : begin + 1024] * window)) ** 2
        energies.append(np.add.reduceat(power[:, : places[-1]], places[:-1], axis=1))
    energy = np.concatenate(energies)
    slope = energy[:, :-1] - energy[:, 1:]
    bits = (slope[1:] - slope[:-1] > 0).astype(np.uint64)
    prints: Prints = (bits << np.arange(_BITS, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    prints[energy[1:].sum(axis=1) < 1e-4] = 0
    return prints


def note_grams(notes: NoteArray) -> Grams:
    """Hashes of all passages of ``GRAM`` intervals, each instrument for itself; drums are left out."""
    found = []
    programs = note_programs(notes)
    for program in np.unique(programs[~notes["is_drum"]]):
        own = notes[programs == program]
        pitches = own["pitch"][np.lexsort((own["pitch"], own["onset"]))].astype(np.int64)
        steps = (np.diff(pitches) + 128).astype(np.uint64)
        if len(steps) < GRAM:
            continue
        passages = np.lib.stride_tricks.sliding_window_view(steps, GRAM)
        value = np.zeros(len(passages), dtype=np.uint64)
        for column in range(GRAM):
            value = (value ^ passages[:, column]) * _MIX
            value ^= value >> np.uint64(29)
        found.append(value)
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.uint64)


def same_sound(songs: Sequence[Prints], compared: Callable[[int, int], bool]) -> list[tuple[int, int, float]]:
    """Pairs of songs of the same recording, and how many of their bits differ.

    Args:
        songs: prints of each.
        compared: whether a pair of numbers (the smaller first) is of interest.
    """
    pairs: dict[tuple[int, int], Counter[int]] = {}
    for places in _shared(
        [prints[prints != 0] for prints in songs], [np.flatnonzero(p) for p in songs], _SAMPLED_PRINTS
    ):
        for i, (first, at) in enumerate(places):
            for second, then in places[i + 1 :]:
                if first != second and compared(first, second):
                    pairs.setdefault((first, second), Counter())[then - at] += 1
    found = []
    for (first, second), offsets in sorted(pairs.items()):
        offset, _ = offsets.most_common(1)[0]
        if sum(offsets[offset + near] for near in (-1, 0, 1)) < _HITS:
            continue
        difference = _difference(songs[first], songs[second], offset)
        if difference < MAX_DIFFERENCE:
            found.append((first, second, difference))
    return found


def same_notes(songs: Sequence[Grams], compared: Callable[[int, int], bool]) -> list[tuple[int, int, float]]:
    """Pairs of songs that share most of their passages, and the share."""
    shared: Counter[tuple[int, int]] = Counter()
    for places in _shared(songs, [np.zeros(len(grams), dtype=np.int64) for grams in songs], _SAMPLED_GRAMS):
        numbers = sorted({number for number, _ in places})
        shared.update((a, b) for i, a in enumerate(numbers) for b in numbers[i + 1 :] if compared(a, b))
    found = []
    for first, second in sorted(shared):
        fewer = min(len(songs[first]), len(songs[second]))
        if fewer < MIN_GRAMS:
            continue
        share = len(np.intersect1d(songs[first], songs[second], assume_unique=True)) / fewer
        if share >= MIN_SHARED:
            found.append((first, second, share))
    return found


def _shared(
    songs: Sequence[npt.NDArray[np.unsignedinteger]], places: Sequence[npt.NDArray[np.intp]], sampled: int
) -> Iterable[list[tuple[int, int]]]:
    """For each sampled value that stands in several places: song and place of each, sorted."""
    parts = []
    for number, (values, at) in enumerate(zip(songs, places, strict=True)):
        wide = values.astype(np.uint64)
        keep = (wide * _MIX >> np.uint64(40)) % np.uint64(sampled) == 0
        columns = np.empty((int(keep.sum()), 3), dtype=np.int64)
        columns[:, 0], columns[:, 1], columns[:, 2] = wide[keep].view(np.int64), number, at[keep]
        parts.append(columns)
    table = np.concatenate(parts) if parts else np.zeros((0, 3), dtype=np.int64)
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    ends = np.flatnonzero(np.diff(table[:, 0])) + 1
    for group in np.split(table, ends):
        if 1 < len(group) <= _COMMON:
            yield [(int(number), int(at)) for _, number, at in group]


def _difference(first: Prints, second: Prints, offset: int) -> float:
    """Share of bits that differ where ``second`` is ``offset`` frames behind; 1 where too little overlaps."""
    begin = max(0, -offset)
    end = min(len(first), len(second) - offset)
    needed = min(MIN_FRAMES, len(first), len(second))
    if end - begin < needed:
        return 1.0
    a, b = first[begin:end], second[begin + offset : end + offset]
    sounding = (a != 0) & (b != 0)
    if sounding.sum() < needed // 2:
        return 1.0
    return float(np.bitwise_count(a[sounding] ^ b[sounding]).sum() / (_BITS * sounding.sum()))
