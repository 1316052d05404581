"""Making a transcription audible: a small additive synthesizer in numpy.

Not meant to be beautiful. Every note is a handful of harmonics under an envelope of its instrument
family, every drum hit a burst of noise or a falling tone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..notes.note import Note
from .colours import CHORUS, DRUMS, SINGING, instrument_family
from .files import atomic_path

Samples = npt.NDArray[np.float32]

_PEAK = 0.7
_RELEASE = 0.06
_LONGEST_NOTE = 30.0


@dataclass(frozen=True)
class Timbre:
    """Sound of a family."""

    harmonics: tuple[float, ...]
    """Level of each harmonic."""
    attack: float = 0.008
    """Seconds to full level."""
    decay: float = 0.0
    """Seconds in which a struck or plucked note falls to 1/e; 0 holds its level."""
    vibrato_cents: float = 0.0
    level: float = 1.0


_STRUCK = Timbre((1.0, 0.5, 0.32, 0.18, 0.1, 0.06), decay=0.9)
_BLOWN = Timbre((1.0, 0.55, 0.5, 0.3, 0.18, 0.1), attack=0.03)
_TIMBRES: dict[str, Timbre] = {
    SINGING: Timbre((1.0, 0.7, 0.45, 0.35, 0.12, 0.08, 0.05), attack=0.025, vibrato_cents=18, level=1.3),
    CHORUS: Timbre((1.0, 0.6, 0.3, 0.2, 0.08), attack=0.05, vibrato_cents=12, level=0.7),
    "Piano": _STRUCK,
    "Chromatic percussion": Timbre((1.0, 0.0, 0.3, 0.0, 0.1), decay=0.5),
    "Organ": Timbre((1.0, 0.8, 0.3, 0.5, 0.0, 0.2, 0.0, 0.25), attack=0.01, level=0.7),
    "Guitar": Timbre((1.0, 0.65, 0.4, 0.3, 0.2, 0.12), attack=0.004, decay=0.6),
    "Bass": Timbre((1.0, 0.6, 0.3, 0.15), decay=0.8, level=1.2),
    "Strings": Timbre((1.0, 0.6, 0.4, 0.3, 0.22, 0.16), attack=0.05, vibrato_cents=10, level=0.8),
    "Brass": _BLOWN,
    "Reed": Timbre((1.0, 0.15, 0.6, 0.12, 0.35, 0.1), attack=0.025),
    "Pipe": Timbre((1.0, 0.25, 0.08), attack=0.04, vibrato_cents=8),
    "Synth lead": Timbre((1.0, 0.5, 0.33, 0.25, 0.2, 0.17)),
    "Synth pad": Timbre((1.0, 0.4, 0.2, 0.1), attack=0.15, level=0.7),
}
_PLAIN = Timbre((1.0, 0.4, 0.2, 0.1))


def render_notes(notes: Sequence[Note], sample_rate: int = 16000, duration: float | None = None) -> Samples:
    """The sound of some notes.

    Args:
        notes: any order; notes that start after ``duration`` or are longer than 30 s are cut.
        sample_rate: samples per second.
        duration: seconds; default until the last note has faded.

    Returns:
        float32 mono ``(samples,)`` with its peak at 0.7, silence for no notes. The same notes give the
        same samples.
    """
    end = max((min(n.offset, n.onset + _LONGEST_NOTE) for n in notes), default=0.0) + 0.3
    total = round((end if duration is None else duration) * sample_rate)
    mix = np.zeros(max(total, 0), dtype=np.float64)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(sample_rate)
    for note in notes:
        start = round(max(note.onset, 0.0) * sample_rate)
        if start >= total:
            continue
        family = instrument_family(note)
        if family == DRUMS:
            sound = _drum(note.pitch, sample_rate, noise)
        else:
            length = min(max(note.offset - note.onset, 0.02), _LONGEST_NOTE)
            sound = _tone(note.pitch, length, sample_rate, _TIMBRES.get(family, _PLAIN))
        stop = min(start + len(sound), total)
        mix[start:stop] += sound[: stop - start]
    peak = max(mix.max(initial=0.0), -mix.min(initial=0.0))  # without a copy: songs may last hours
    if peak > 0:
        mix *= _PEAK / peak
    return np.asarray(mix, dtype=np.float32)


def write_wav(path: str | Path, audio: Samples, sample_rate: int) -> None:
    """Write mono audio as 16-bit WAV; the file is whole or not there."""
    import soundfile

    with atomic_path(Path(path)) as temporary:
        soundfile.write(
            os.fspath(temporary), np.clip(audio, -1.0, 1.0), sample_rate, format="WAV", subtype="PCM_16"
        )


def _tone(pitch: int, length: float, sample_rate: int, timbre: Timbre) -> npt.NDArray[np.float64]:
    time = np.arange(round((length + _RELEASE) * sample_rate)) / sample_rate
    frequency = 440.0 * 2.0 ** ((pitch - 69) / 12)
    phase = 2.0 * np.pi * frequency * time
    if timbre.vibrato_cents:
        depth = 2.0 ** (timbre.vibrato_cents / 1200) - 1.0
        grown = np.clip(time / 0.4, 0.0, 1.0)
        phase += frequency * depth / 5.5 * grown * np.sin(2.0 * np.pi * 5.5 * time)
    wave = np.zeros_like(time)
    for number, level in enumerate(timbre.harmonics, start=1):
        if level and frequency * number < 0.45 * sample_rate:
            wave += level * np.sin(number * phase)
    envelope = np.minimum(time / timbre.attack, 1.0)
    if timbre.decay:
        envelope *= np.exp(-time / (timbre.decay * min(2.0, 2.0 ** ((60 - pitch) / 24))))
    envelope *= np.clip((length + _RELEASE - time) / _RELEASE, 0.0, 1.0)
    return np.asarray(wave * envelope * (timbre.level / sum(timbre.harmonics)))


def _drum(pitch: int, sample_rate: int, noise: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if pitch in (35, 36) or pitch in (41, 43, 45, 47, 48, 50, 58):
        low = 50.0 if pitch in (35, 36) else 70.0 + 6.0 * (pitch - 41)
        time = np.arange(round(0.25 * sample_rate)) / sample_rate
        phase = 2.0 * np.pi * (low * time + low * 0.06 * (1.0 - np.exp(-time / 0.03)))
        return np.asarray(0.9 * np.sin(phase) * np.exp(-time / 0.08))
    if pitch in (37, 38, 39, 40, 2):
        decay, level, bright = 0.06, 0.3, 0.0
    elif pitch in (42, 44, 22):
        decay, level, bright = 0.02, 0.16, 1.0
    else:
        decay, level, bright = 0.18, 0.14, 1.0
    burst = noise[: min(round(decay * 5 * sample_rate), len(noise))]
    if bright:
        burst = np.diff(burst, prepend=0.0)
    return np.asarray(level * burst * np.exp(-np.arange(len(burst)) / (decay * sample_rate)))
