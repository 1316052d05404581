"""Rooms, noise and levels: from single stems to int16 stems whose plain sum is the mix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import oaconvolve, sosfilt

from .songs import Floats

SAMPLE_RATE = 16000
VOICE_DB = -22.0
"""RMS of the voice of a training song over its active part, in dBFS."""
BAND_DB = -28.0
"""The same of each accompanying stem: random gains then mostly leave the voice in front, as in songs, and
often enough not."""
_FRAME = 800


@dataclass(frozen=True)
class Mixing:
    """How loud, wet and noisy the songs of a split are; pairs are uniform ranges."""

    final: bool
    """Stems carry the levels of the final mix; else each has its nominal loudness."""
    drums: float
    """Probability of a drum stem."""
    parts: tuple[int, int]
    """Fewest and most accompanying stems."""
    voice_db: tuple[float, float]
    """Voice over accompaniment (with drums), RMS where the voice is active."""
    drums_db: tuple[float, float]
    """Drums over the pitched accompaniment."""
    noise: float
    """Probability of a noise stem."""
    snr_db: tuple[float, float]
    """Voice over noise."""
    reverb: float
    """Probability of a room."""
    rt60: tuple[float, float]
    wet_db: tuple[float, float]
    """Room over direct sound."""
    equaliser: float
    """Probability that the voice goes through an equaliser."""


TRAINING = Mixing(
    False, 0.5, (1, 3), (0.0, 0.0), (0.0, 0.0), 0.3, (12.0, 35.0), 0.55, (0.2, 1.1), (-20.0, -4.0), 0.5
)
STANDARD = Mixing(
    True, 0.35, (1, 3), (2.0, 12.0), (-8.0, -2.0), 0.0, (0.0, 0.0), 0.4, (0.2, 0.5), (-18.0, -10.0), 0.0
)
HARD = Mixing(
    True, 1.0, (3, 3), (0.0, 0.0), (-3.0, 0.0), 1.0, (15.0, 25.0), 1.0, (0.3, 1.0), (-12.0, -3.0), 0.5
)


def rms(sound: Floats, mask: npt.NDArray[np.bool_] | None = None) -> float:
    """Root mean square, of the samples in ``mask`` if given."""
    chosen = sound if mask is None else sound[mask]
    return float(np.sqrt(np.mean(chosen * chosen))) if chosen.size else 0.0


def active(sound: Floats) -> npt.NDArray[np.bool_]:
    """Samples in 50 ms frames that are within 26 dB of the loud ones."""
    frames = -(-len(sound) // _FRAME)
    padded = np.zeros(frames * _FRAME)
    padded[: len(sound)] = sound
    levels = np.sqrt(np.mean(padded.reshape(frames, _FRAME) ** 2, axis=1))
    loud = float(np.quantile(levels, 0.95))
    return np.repeat(levels > max(0.05 * loud, 1e-7), _FRAME)[: len(sound)]


def make_room(rt60: float, wet_db: float, rng: np.random.Generator) -> Floats:
    """Impulse response with the direct sound at sample 0, early reflections and a decaying tail."""
    count = int(min(1.2 * rt60, 1.2) * SAMPLE_RATE)
    time = np.arange(count) / SAMPLE_RATE
    low = rng.normal(size=count) * np.exp(-6.91 * time / rt60)
    pole = np.exp(-2 * np.pi * rng.uniform(1500.0, 5000.0) / SAMPLE_RATE)
    dark = sosfilt([[1 - pole, 0.0, 0.0, 1.0, -pole, 0.0]], low)
    bright = rng.normal(size=count) * np.exp(-6.91 * time / (0.55 * rt60))
    tail = dark / (rms(dark) + 1e-12) + 0.5 * bright / (rms(bright) + 1e-12)
    gap = rng.uniform(0.004, 0.025)
    tail *= np.clip((time - gap) / 0.012, 0.0, 1.0)
    for _ in range(int(rng.integers(3, 9))):
        place = int(rng.uniform(0.003, 0.05) * SAMPLE_RATE)
        tail[place] += rng.choice((-1.0, 1.0)) * rng.uniform(1.0, 4.0)
    response = tail * 10 ** (wet_db / 20) / np.sqrt(np.sum(tail * tail))
    response[0] = 1.0
    return np.asarray(response, dtype=np.float64)


def add_room(sound: Floats, room: Floats) -> Floats:
    """Sound in a room, same length."""
    return np.asarray(oaconvolve(sound, room)[: len(sound)], dtype=np.float64)


def equalise(sound: Floats, rng: np.random.Generator) -> Floats:
    """Sound through three bell filters of at most 8 dB (R. Bristow-Johnson's audio EQ cookbook)."""
    sections = []
    for low, high in ((120.0, 500.0), (500.0, 2000.0), (2000.0, 6000.0)):
        turn = 2 * np.pi * rng.uniform(low, high) / SAMPLE_RATE
        gain = 10 ** (rng.uniform(-8.0, 8.0) / 40)
        width = np.sin(turn) / (2 * rng.uniform(0.5, 1.2))
        b0, b1, b2 = 1 + width * gain, -2 * np.cos(turn), 1 - width * gain
        a0, a2 = 1 + width / gain, 1 - width / gain
        sections.append([b0 / a0, b1 / a0, b2 / a0, 1.0, b1 / a0, a2 / a0])
    return np.asarray(sosfilt(np.array(sections), sound), dtype=np.float64)


def coloured_noise(samples: int, rng: np.random.Generator) -> Floats:
    """Unit-RMS noise with a spectrum between white and brown, its level wandering slowly."""
    size = 1 << int(samples - 1).bit_length()
    spectrum = np.fft.rfft(rng.normal(size=size))
    frequencies = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 40.0)
    noise = np.fft.irfft(spectrum * frequencies ** (-rng.uniform(0.0, 1.0)), size)[:samples]
    points = np.arange(0, samples + SAMPLE_RATE, SAMPLE_RATE)
    noise = noise * np.interp(np.arange(samples), points, 10 ** (rng.normal(0.0, 1.5, len(points)) / 20))
    return np.asarray(noise / (rms(noise) + 1e-12), dtype=np.float64)


def nominal(sound: Floats, level_db: float, rng: np.random.Generator) -> Floats:
    """A training stem at ``level_db`` dBFS with a little variation; peaks stay under 0.7."""
    level = rms(sound, active(sound))
    gain = 10 ** ((level_db + rng.uniform(-1.5, 1.5)) / 20) / (level + 1e-9)
    peak = float(np.max(np.abs(sound), initial=0.0))
    return sound * min(gain, 0.7 / (peak + 1e-9))


def final_levels(
    voice: Floats, pitched: list[Floats], drums: Floats | None, mixing: Mixing, rng: np.random.Generator
) -> tuple[list[Floats], float]:
    """Voice, pitched stems and drums (if any) at the levels of a mix; also the voice's lead in dB."""
    where = active(voice)
    voice = voice * (10 ** (-20.0 / 20) / (rms(voice, where) + 1e-9))
    band = []
    for stem in pitched:
        level = rms(stem, active(stem))
        band.append(stem * (10 ** (rng.uniform(-4.0, 4.0) / 20) / (level + 1e-9)))
    if drums is not None:
        total = np.sum(band, axis=0)
        wanted = rms(total, where) * 10 ** (rng.uniform(*mixing.drums_db) / 20)
        band.append(drums * (wanted / (rms(drums, where) + 1e-9)))
    lead = float(rng.uniform(*mixing.voice_db))
    total = np.sum(band, axis=0)
    gain = rms(voice, where) * 10 ** (-lead / 20) / (rms(total, where) + 1e-9)
    return [voice, *(stem * gain for stem in band)], lead


def to_int16(stems: list[Floats]) -> npt.NDArray[np.int16]:
    """Stems as int16 (stems, samples), all scaled down together if their sum would pass 0.95."""
    stacked = np.stack(stems)
    peak = max(float(np.max(np.abs(stacked.sum(axis=0)))), float(np.max(np.abs(stacked))), 1e-9)
    stacked *= 32768.0 * min(1.0, 0.95 / peak)
    return np.asarray(np.rint(stacked), dtype=np.int16)
