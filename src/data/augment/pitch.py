"""Pitch shift of sound and labels together; drums stay as they are.

By speed (the default): played faster or slower, as a tape. Exact and cheap; labels move in time too. By
stretching: the duration is changed first (:mod:`.stretch`) so that time stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr

from ...notes.note import NoteArray
from .stretch import stretch

MARGIN = 64
"""Samples read beyond the window so that the resampler has something to look at."""


@dataclass(frozen=True)
class PitchShift:
    """How pitched stems are played."""

    semitones: int = 0
    """Shift of the labels."""
    detune: float = 0.0
    """Further shift of the sound in semitones; labels unchanged."""

    keeps_time: bool = False
    """Whether notes stay where they are in time."""

    @property
    def speed(self) -> float:
        """Factor of the frequencies; unless time is kept, also seconds of the song heard per second."""
        return float(2.0 ** ((self.semitones + self.detune) / 12.0))

    @property
    def active(self) -> bool:
        """Whether anything changes."""
        return self.semitones != 0 or self.detune != 0.0

    def span(self, num_samples: int) -> int:
        """Samples of the song that fill ``num_samples`` (at least that many are read, for the drums)."""
        if not self.active or self.keeps_time:
            return num_samples
        return max(num_samples, math.ceil(num_samples * self.speed))


def semitone_choices(shift_range: tuple[float, float]) -> tuple[int, int]:
    """First and last whole semitone within the range.

    Raises:
        ValueError: when there is none.
    """
    low, high = math.ceil(shift_range[0]), math.floor(shift_range[1])
    if low > high:
        raise ValueError(f"-ps {shift_range[0]} {shift_range[1]}: no whole semitone lies in this range")
    return low, high


def draw_pitch_shift(
    rng: np.random.Generator, shift_range: tuple[float, float], detune: float, *, keeps_time: bool = False
) -> PitchShift:
    """A whole number of semitones, uniform in the range, and a uniform detuning of at most ``detune``."""
    low, high = semitone_choices(shift_range)
    semitones = int(rng.integers(low, high + 1))
    return PitchShift(semitones, float(rng.uniform(-detune, detune)) if detune else 0.0, keeps_time)


def shift_audio(
    audio: npt.NDArray[np.float32], shift: PitchShift, num_samples: int
) -> npt.NDArray[np.float32]:
    """(n,) float32 at the shifted pitch, cut or padded to ``num_samples``.

    Band-limited (soxr): shifting up folds nothing back, shifting down loses no level.
    """
    if not shift.active:
        played = audio
    else:
        if shift.keeps_time:
            audio = stretch(audio, shift.speed)
        played = soxr.resample(audio, shift.speed, 1.0, quality="MQ").astype(np.float32, copy=False)
    if len(played) >= num_samples:
        return played[:num_samples]
    return np.pad(played, (0, num_samples - len(played)))


def shift_notes(notes: NoteArray, shift: PitchShift) -> NoteArray:
    """Notes (seconds from the start of the window) as they sound after the shift.

    Pitched notes move by the semitones and, unless time is kept, in time; those that leave 0 to 127 are
    dropped. Drum notes keep pitch and time.
    """
    if not shift.active or not len(notes):
        return notes
    shifted = notes.copy()
    pitched = ~shifted["is_drum"]
    pitch = shifted["pitch"] + pitched * shift.semitones
    if not shift.keeps_time:
        scale = np.where(pitched, 1.0 / shift.speed, 1.0)
        shifted["onset"] *= scale
        shifted["offset"] *= scale
    inside = (pitch >= 0) & (pitch <= 127)
    shifted["pitch"] = np.where(inside, pitch, 0)
    return shifted if inside.all() else shifted[inside]
