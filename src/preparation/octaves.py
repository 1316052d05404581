"""Whether a voice sounds an octave above or below its labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..notes.note import NoteArray

MIN_NOTES = 10
MAJORITY = 0.6
"""Share of the notes that must agree."""
_FRAME = 2048
_MOST = 80
"""Notes listened to, spread over the song."""
_CENTS = 60.0
"""Half the width of the place where a partial is looked for."""


def octave_votes(audio: npt.NDArray[np.float32], notes: NoteArray, sample_rate: int = 16000) -> int:
    """Octaves by which the sound lies above the labels, where most notes agree; else 0.

    A tone labelled an octave too high has partials halfway between those expected; one labelled an octave too
    low lacks the odd ones.

    Args:
        audio: (samples,) the voice, best without accompaniment.
        notes: its notes.
        sample_rate: in Hz.
    """
    long = notes[notes["offset"] - notes["onset"] >= _FRAME / sample_rate + 0.06]
    if len(long) < MIN_NOTES:
        return 0
    chosen = long[np.unique(np.linspace(0, len(long) - 1, min(_MOST, len(long))).astype(int))]
    votes = []
    window = np.hanning(_FRAME)
    for note in chosen:
        middle = round(float(note["onset"] + note["offset"]) / 2 * sample_rate) - _FRAME // 2
        frame = audio[middle : middle + _FRAME]
        if len(frame) < _FRAME or not frame.any():
            continue
        spectrum = np.abs(np.fft.rfft(frame * window, 4 * _FRAME))
        pitch = 440 * 2 ** ((int(note["pitch"]) - 69) / 12)
        votes.append(_vote(spectrum, pitch, sample_rate / (4 * _FRAME)))
    if len(votes) < MIN_NOTES:
        return 0
    for octave in (-1, 1):
        if votes.count(octave) >= MAJORITY * len(votes):
            return octave
    return 0


def _vote(spectrum: npt.NDArray[np.float64], pitch: float, step: float) -> int:
    """-1, 0 or 1: the octave of the sound relative to ``pitch``."""

    def level(partials: tuple[float, ...]) -> float:
        found = []
        for partial in partials:
            low, high = (partial * pitch * 2 ** (sign * _CENTS / 1200) / step for sign in (-1, 1))
            if high < len(spectrum) - 1:
                found.append(float(spectrum[int(low) : int(high) + 2].max()))
        return float(np.sqrt(np.mean(np.square(found)))) if found else 0.0

    whole, halves = level((1, 2, 3)), level((0.5, 1.5, 2.5))
    odd, even = level((1, 3, 5)), level((2, 4, 6))
    if halves > 0.5 * whole:
        return -1
    return 1 if odd < 0.1 * even else 0
