"""MIR-1K (Hsu and Jang 2010): a thousand karaoke clips, accompaniment left and voice right.

``Wavfile/SINGER_N_NN.wav`` and ``PitchLabel/SINGER_N_NN.pv`` (the voice's pitch in semitones, 0 where it
is silent; one line for each 20 ms, the first of 20 ms). Nobody wrote down its notes: they are cut from
the pitch line (:func:`notes_of_pitch`). There are no published splits for notes; singers are drawn by a
hash of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter

from ...audio.reading import Samples, read_audio
from ...data.shares import split_of
from ...notes.note import SINGING_PROGRAM, NoteArray
from .corpus import OTHERS_HEARD, Corpus, Found, Stem
from .labels import naming, number_rows, pitched_notes
from .singers import Row

LICENCE = "not stated; for research"
SPLITS = ("train", "validation", "test")
SEED = 2
"""Of the draw of singers; both evaluation splits get some."""
HOP = 0.02
"""Seconds from one value of the pitch line to the next."""
SMOOTHING = 5
"""Values of the running median."""
LEAP = 0.6
"""Semitones away from the note so far where another note begins..."""
LEAP_VALUES = 3
"""...if so many values in a row are."""
SHORTEST = 4
"""Values of a note; shorter stretches are no notes."""


@dataclass(frozen=True)
class ChannelSound:
    """One channel of a stereo file; calling it reads it."""

    path: Path
    channel: int

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,)."""
        return read_audio(self.path, sample_rate, channel=self.channel)


@dataclass(frozen=True)
class PitchLineLabels:
    """Notes cut from a pitch line; calling it reads it."""

    path: Path

    def __call__(self) -> NoteArray:
        """The notes."""
        line = np.array([row[0] for row in number_rows(self.path, 1)])
        with naming(self.path):
            return pitched_notes(notes_of_pitch(line), SINGING_PROGRAM)


def notes_of_pitch(line: npt.NDArray[np.float64]) -> list[Row]:
    """Cut a pitch line (values,) in semitones, 0 for silence, into notes.

    A note lasts while the smoothed line stays near the median of the note so far; its pitch is the median of
    all its values.
    """
    notes = []
    for begin, end in _voiced(line):
        smooth = median_filter(line[begin:end], SMOOTHING, mode="nearest")
        for first, last in _steady(smooth):
            if last - first >= SHORTEST:
                times = ((begin + first + 0.5) * HOP, (begin + last + 0.5) * HOP)
                notes.append((*times, float(np.median(line[begin + first : begin + last]))))
    return notes


def _voiced(line: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (line > 0).astype(np.int8), [0]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _steady(smooth: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    first, away = 0, 0
    for place in range(1, len(smooth)):
        own = smooth[first : max(place - away, first + 1)]
        away = away + 1 if abs(smooth[place] - np.median(own)) > LEAP else 0
        if away == LEAP_VALUES:
            yield first, place - LEAP_VALUES + 1
            first, away = place - LEAP_VALUES + 1, 0
    yield first, len(smooth)


def find(source: Path) -> Found:
    """All clips."""
    found = Found()
    for sound in sorted(path for path in source.rglob("*.wav") if path.parent.name == "Wavfile"):
        pitch = sound.parent.parent / "PitchLabel" / f"{sound.stem}.pv"
        voice = Stem("voice", ChannelSound(sound, 1), (SINGING_PROGRAM,))
        stems = [voice, Stem("accompaniment", ChannelSound(sound, 0), ())]
        split = split_of(sound.stem.split("_")[0].lower(), SEED, 0.15, 0.15)
        meta = {"source": f"MIR-1K/{sound.stem}", "licence": LICENCE, **OTHERS_HEARD}
        found.add(sound.stem, (split,), stems, PitchLineLabels(pitch), [sound, pitch], **meta)
    return found


CORPUS = Corpus("mir1k", "MIR-1K", LICENCE, find, splits=SPLITS, num_songs=1000)
