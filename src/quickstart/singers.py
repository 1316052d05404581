"""Singers: who sings, and how a melody becomes pitch, loudness, vowels and consonants.

:func:`plan_voice` turns notes into control curves and labels. :mod:`.voices` turns the curves into sound.
The label of a note starts where its vowel starts; consonants lie before it. Where two notes are joined
(legato) the label lies in the middle of the glide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter1d

from .songs import Floats, Performance, generator

SAMPLE_RATE = 16000
HOP = 80
"""Samples per frame of the control curves (5 ms)."""
TRAINING_ENGINES = ("cascade", "pulse", "bumps")
HELD_OUT_ENGINE = "grains"

RANGES = {"soprano": (60, 82), "mezzo": (56, 76), "tenor": (48, 69), "baritone": (43, 65)}
# First five formants in Hz of an average adult; singers scale them.
VOWELS: dict[str, tuple[float, ...]] = {
    "a": (750, 1250, 2600, 3500, 4500),
    "ae": (690, 1700, 2500, 3500, 4500),
    "e": (470, 2050, 2650, 3600, 4600),
    "i": (300, 2350, 3050, 3700, 4700),
    "o": (470, 850, 2500, 3350, 4400),
    "aw": (600, 950, 2550, 3400, 4450),
    "u": (320, 750, 2350, 3300, 4400),
    "er": (490, 1350, 1750, 3300, 4400),
    "y": (310, 1850, 2350, 3350, 4400),
    "uh": (540, 1400, 2500, 3450, 4450),
}
# The held-out engine has its own vowels (soprano and tenor of the classic grain-synthesis tables).
GRAIN_VOWELS: dict[str, tuple[float, ...]] = {
    "a": (725, 1110, 2800, 3250, 4600),
    "e": (380, 1850, 2650, 3150, 4700),
    "i": (280, 2020, 2900, 3500, 4800),
    "o": (430, 810, 2740, 3300, 4700),
    "u": (340, 650, 2720, 3250, 4650),
}
NASAL = (270.0, 1050.0, 2150.0, 3200.0, 4300.0)


@dataclass(frozen=True)
class Singer:
    """Settings of one singer."""

    name: str
    engine: str
    kind: str
    vowels: tuple[tuple[float, ...], ...]
    bandwidths: tuple[float, ...]
    gains_db: tuple[float, ...]
    """Level of each formant where an engine adds them up."""
    tilt: float
    """Fall of the source in dB per octave."""
    open_quotient: float
    breath_db: float
    vibrato_rate: float
    vibrato_cents: float
    vibrato_delay: float
    tremolo_db: float
    legato: float
    glide: float
    scoop: float
    scoop_semitones: float
    attack: float
    release: float
    length: float
    detune_cents: float
    jitter_cents: float
    consonants: tuple[float, float, float, float]
    """Weights of fricative, plosive, nasal and bare vowel onsets."""
    consonant_db: float
    dynamics_db: float
    ring: float
    """0 to 1: how far the upper formants draw together (singer's formant)."""

    @property
    def range(self) -> tuple[int, int]:
        """Lowest and highest pitch."""
        return RANGES[self.kind]


# Voice types in turn; the length has no divisor in common with the number of training engines.
_KINDS = ("soprano", "tenor", "mezzo", "soprano", "baritone", "mezzo", "soprano", "tenor")


def make_singer(seed: int, group: str, number: int, engines: tuple[str, ...]) -> Singer:
    """Singer ``number`` of a group: engines and voice types go in turn, the rest follows from the seed."""
    name = f"{group}-{number:02d}"
    rng = generator(seed, "singer", name)
    engine, kind = engines[number % len(engines)], _KINDS[number % len(_KINDS)]
    high = kind in ("soprano", "mezzo")
    scale = float(rng.uniform(1.02, 1.24) if high else rng.uniform(0.84, 1.02))
    ring = float(rng.uniform(0.0, 0.9)) if rng.random() < 0.5 else 0.0
    vowels: list[tuple[float, ...]] = []
    for _ in range(int(rng.integers(4, 8))):
        if engine == "bumps":
            base = [rng.uniform(*span) for span in ((270, 950), (750, 2400), (2000, 3300), (3000, 4300))]
            base.append(rng.uniform(4200, 6000))
        else:
            table = GRAIN_VOWELS if engine == HELD_OUT_ENGINE else VOWELS
            base = list(table[str(rng.choice(list(table)))])
        formants = [f * scale * rng.normal(1.0, 0.04) for f in base]
        centre = float(np.mean(formants[2:5]))
        formants[2:5] = [f + 0.55 * ring * (centre - f) for f in formants[2:5]]
        vowels.append(tuple(float(f) for f in np.sort(formants)))
    narrow = float(rng.uniform(1.0, 2.0))
    strong = rng.random() < 0.75
    return Singer(
        name=name,
        engine=engine,
        kind=kind,
        vowels=tuple(vowels),
        bandwidths=tuple(narrow * b for b in (80.0, 95.0, 130.0, 180.0, 240.0)),
        gains_db=tuple(float(g) for g in rng.normal((0, -5, -13, -16, -24), (0.5, 4, 5, 6, 6))),
        tilt=float(rng.uniform(3.0, 11.0)),
        open_quotient=float(rng.uniform(0.4, 0.8)),
        breath_db=float(rng.uniform(-44.0, -18.0)),
        vibrato_rate=float(rng.uniform(4.4, 7.0)),
        vibrato_cents=float(rng.uniform(20.0, 75.0)) if strong else float(rng.uniform(0.0, 12.0)),
        vibrato_delay=float(rng.uniform(0.05, 0.45)),
        tremolo_db=float(rng.uniform(0.0, 2.5)),
        legato=float(rng.uniform(0.05, 0.5)),
        glide=float(rng.uniform(0.035, 0.13)),
        scoop=float(rng.uniform(0.0, 0.5)),
        scoop_semitones=float(rng.uniform(0.3, 2.0)),
        attack=float(rng.uniform(0.006, 0.032)),
        release=float(rng.uniform(0.02, 0.08)),
        length=float(rng.uniform(0.82, 1.0)),
        detune_cents=float(rng.uniform(2.0, 12.0)),
        jitter_cents=float(rng.uniform(1.5, 7.0)),
        consonants=tuple(float(w) for w in rng.dirichlet((3.0, 3.0, 2.0, 1.2))),  # type: ignore[arg-type]
        consonant_db=float(rng.uniform(-28.0, -12.0)),
        dynamics_db=float(rng.uniform(0.5, 4.0)),
        ring=ring,
    )


@dataclass(frozen=True)
class SungNote:
    """A note as it is sung: seconds, and what comes before its vowel."""

    onset: float
    offset: float
    pitch: int
    velocity: int
    start: str
    """``fricative``, ``plosive``, ``nasal``, ``vowel`` or ``legato``."""
    consonant: float
    """Seconds of consonant before the onset."""


@dataclass(frozen=True)
class Burst:
    """Noise of a consonant or a breath."""

    start: float
    seconds: float
    centre: float
    width: float
    """Octaves."""
    level_db: float
    sharp: bool


@dataclass(frozen=True)
class VoicePlan:
    """Control curves of a voice part."""

    notes: tuple[SungNote, ...]
    f0: Floats
    """(frames,) Hz, everywhere positive."""
    formants: Floats
    """(frames, 5) Hz."""
    envelope: Floats
    """(samples,) amplitude of the voiced sound."""
    bursts: tuple[Burst, ...]


def _timed_notes(performance: Performance, singer: Singer, rng: np.random.Generator) -> list[SungNote]:
    """Onsets, offsets and consonants; consonants take their time from the note before."""
    melody = performance.melody
    starts = performance.timing.seconds(np.array([n.start for n in melody]))
    ends = performance.timing.seconds(np.array([n.start + n.length for n in melody]))
    onsets = starts + np.clip(rng.normal(0.0, 0.008, len(melody)), -0.02, 0.02)
    onsets = np.maximum.accumulate(onsets + 0.0)
    weights = np.array(singer.consonants)
    notes: list[SungNote] = []
    for i, written in enumerate(melody):
        onset = float(onsets[i])
        nominal = float(ends[i]) - float(starts[i])
        span = singer.length * rng.uniform(0.92, 1.0) - (0.14 if written.breath else 0.0)
        offset = onset + nominal * float(np.clip(span, 0.7, 0.99))
        kind = ("fricative", "plosive", "nasal", "vowel")[int(rng.choice(4, p=weights))]
        consonant = {
            "fricative": rng.uniform(0.05, 0.14),
            "plosive": rng.uniform(0.04, 0.10),
            "nasal": rng.uniform(0.04, 0.10),
            "vowel": rng.uniform(0.025, 0.06),
        }[kind]
        if notes:
            last = notes[-1]
            joined = onset - last.offset < 0.25 * (onset - last.onset)
            short = nominal < 0.3
            wish = singer.legato + (0.25 if short else 0.0)
            if joined and not melody[i - 1].breath and last.pitch != written.pitch and rng.random() < wish:
                kind, consonant, end = "legato", 0.0, onset
            else:
                consonant = min(consonant, 0.3 * (onset - last.onset))
                end = min(last.offset, onset - consonant)
            end = max(end, last.onset + 0.03)
            notes[-1] = SungNote(last.onset, end, last.pitch, last.velocity, last.start, last.consonant)
        phrase = np.sin(np.pi * i / max(1, len(melody) - 1))
        velocity = int(np.clip(rng.normal(76 + 14 * phrase, 2.5 * singer.dynamics_db), 40, 120))
        notes.append(SungNote(onset, offset, written.pitch, velocity, kind, float(consonant)))
    return notes


def _pitch_curve(notes: list[SungNote], singer: Singer, frames: int, rng: np.random.Generator) -> Floats:
    """Hz per frame: steps, glides, scoops, vibrato, drift and jitter."""
    time = np.arange(frames) * HOP / SAMPLE_RATE
    curve = np.full(frames, float(notes[0].pitch))
    vibrato = np.zeros(frames)
    detunes = np.clip(rng.normal(0.0, singer.detune_cents, len(notes)), -25, 25) / 100
    for i, note in enumerate(notes):
        target = note.pitch + detunes[i]
        begin = note.onset - note.consonant
        after = time >= begin
        if note.start == "legato":
            room = min(note.onset - notes[i - 1].onset, note.offset - note.onset)
            glide = min(singer.glide * rng.uniform(0.7, 1.4), 0.7 * room)
            place = np.clip((time - note.onset) / glide + 0.5, 0.0, 1.0)
            step = 0.5 - 0.5 * np.cos(np.pi * place)
            previous = notes[i - 1].pitch + detunes[i - 1]
            ahead = time >= note.onset - glide / 2
            curve[ahead] = previous + (target - previous) * step[ahead]
        else:
            curve[after] = target
            if rng.random() < singer.scoop:
                depth = singer.scoop_semitones * rng.uniform(0.3, 1.0)
                tau = min(rng.uniform(0.015, 0.05), 0.12 * (note.offset - note.onset))
                since = np.maximum(time - note.onset, 0.0)
                curve[after] -= depth * np.exp(-since[after] / tau)
        length = note.offset - note.onset
        if length > 0.22:
            delay = min(singer.vibrato_delay, 0.4 * length)
            inside = (time >= note.onset + delay) & (time < note.offset)
            grow = np.clip((time[inside] - note.onset - delay) / 0.2, 0.0, 1.0)
            vibrato[inside] = grow * singer.vibrato_cents / 100 * rng.uniform(0.6, 1.2)
    rate = singer.vibrato_rate * (1 + 0.08 * _slow_noise(frames, 40.0, rng))
    phase = 2 * np.pi * np.cumsum(rate) * HOP / SAMPLE_RATE
    vibrato = gaussian_filter1d(vibrato, 6.0)
    if singer.engine == HELD_OUT_ENGINE:  # a lopsided wave whose width wanders
        wave = np.arcsin(0.97 * np.sin(phase + 0.45 * np.sin(phase))) / 1.4
        wave = wave * (1 + 0.35 * _slow_noise(frames, 60.0, rng))
    else:
        wave = np.sin(phase)
    wander = 0.05 * _slow_noise(frames, 50.0, rng) + singer.jitter_cents / 100 * _slow_noise(frames, 2.0, rng)
    curve = curve + vibrato * wave + wander
    return np.asarray(440.0 * 2.0 ** ((curve - 69.0) / 12.0), dtype=np.float64)


def _slow_noise(frames: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Smooth noise of about unit size; ``sigma`` in frames."""
    smooth = gaussian_filter1d(rng.normal(size=frames), sigma)
    return np.asarray(np.clip(smooth * np.sqrt(2 * np.sqrt(np.pi) * sigma), -2.5, 2.5), dtype=np.float64)


def _envelope(notes: list[SungNote], singer: Singer, samples: int, rng: np.random.Generator) -> Floats:
    """Amplitude per sample; exactly zero where nothing is voiced."""
    envelope = np.zeros(samples)
    for i, note in enumerate(notes):
        level = 10.0 ** ((note.velocity - 80) / 4.5 / 20)
        follower = notes[i + 1] if i + 1 < len(notes) else None
        legato_out = follower is not None and follower.start == "legato"
        first, last = round(note.onset * SAMPLE_RATE), min(round(note.offset * SAMPLE_RATE), samples)
        if note.start == "nasal":
            begin = round((note.onset - note.consonant) * SAMPLE_RATE)
            begin = max(begin, 0)
            murmur = 10.0 ** (rng.uniform(-19.0, -13.0) / 20) * level
            rise = np.minimum(np.arange(first - begin) / 240.0, 1.0)
            envelope[begin:first] = np.maximum(envelope[begin:first], murmur * rise)
        count = last - first
        if count < 8:
            continue
        x = np.arange(count) / SAMPLE_RATE
        length = count / SAMPLE_RATE
        swell = rng.normal(0.0, singer.dynamics_db) * (x / length - 0.5)
        swell = swell + rng.uniform(0.0, singer.dynamics_db) * np.sin(np.pi * x / length)
        shape = level * 10.0 ** (swell / 20)
        if note.start == "legato":
            dip = 10.0 ** (-rng.uniform(0.0, 4.0) / 20)
            shape = shape * (1 - (1 - dip) * np.exp(-((x / 0.03) ** 2)))
        else:
            attack = min(singer.attack * rng.uniform(0.7, 1.3), 0.4 * length)
            shape = shape * np.sin(0.5 * np.pi * np.minimum(x / attack, 1.0)) ** 1.3
        if not legato_out:
            release = min(singer.release * rng.uniform(0.7, 1.4), 0.4 * length)
            left = np.minimum((length - x) / release, 1.0)
            shape = shape * (0.5 - 0.5 * np.cos(np.pi * left))
        envelope[first:last] = np.maximum(envelope[first:last], shape)
    joined = gaussian_filter1d(envelope, 24.0)
    for note in notes:  # smooth steps between legato notes, not the onsets
        if note.start == "legato":
            span = slice(round((note.onset - 0.02) * SAMPLE_RATE), round((note.onset + 0.02) * SAMPLE_RATE))
            envelope[span] = joined[span]
    return envelope


def _formant_curve(notes: list[SungNote], singer: Singer, f0: Floats, rng: np.random.Generator) -> Floats:
    frames = len(f0)
    track = np.empty((frames, 5))
    vowel = int(rng.integers(len(singer.vowels)))
    track[:] = singer.vowels[vowel]
    for note in notes:
        if note.start != "legato":
            vowel = int(rng.integers(len(singer.vowels)))
        target = np.array(singer.vowels[vowel]) * rng.normal(1.0, 0.025, 5)
        begin = max(0, round((note.onset - 0.4 * note.consonant) * SAMPLE_RATE / HOP))
        if note.start == "nasal":
            begin = round(note.onset * SAMPLE_RATE / HOP)
            murmur = max(0, round((note.onset - note.consonant) * SAMPLE_RATE / HOP))
            track[murmur:begin] = NASAL
        track[begin:] = target
    track = gaussian_filter1d(track, rng.uniform(2.0, 6.0), axis=0)
    for i in range(5):
        track[:, i] *= 1 + 0.02 * _slow_noise(frames, 60.0, rng)
    tuning = rng.uniform(0.75, 1.05)
    track[:, 0] = np.maximum(track[:, 0], tuning * f0)
    track[:, 1] = np.maximum(track[:, 1], 1.15 * track[:, 0])
    return np.asarray(np.minimum(track, 7300.0), dtype=np.float64)


def _bursts(notes: list[SungNote], singer: Singer, rng: np.random.Generator) -> list[Burst]:
    bursts: list[Burst] = []
    places = ((5600.0, 0.5), (3300.0, 0.5), (4200.0, 1.4), (2200.0, 0.9))
    if singer.engine == HELD_OUT_ENGINE:
        places = ((6300.0, 0.35), (2700.0, 0.35), (3700.0, 0.8), (1500.0, 0.6))
    for i, note in enumerate(notes):
        level = singer.consonant_db + float(rng.normal(0.0, 2.5))
        if note.start == "fricative":
            centre, width = places[int(rng.integers(4))]
            begin = note.onset - note.consonant
            bursts.append(Burst(begin, note.consonant + 0.006, centre, width, level, False))
        elif note.start == "plosive":
            centre = float(rng.choice((900.0, 1900.0, 3600.0))) * float(rng.uniform(0.9, 1.1))
            seconds = min(float(rng.uniform(0.012, 0.04)), note.consonant)
            bursts.append(Burst(note.onset - seconds, seconds + 0.004, centre, 0.8, level + 4, True))
        gap = note.onset - note.consonant - (notes[i - 1].offset if i else 0.0)
        if gap > 0.3 and rng.random() < 0.5:
            seconds = float(rng.uniform(0.15, min(0.4, gap)))
            begin = note.onset - note.consonant - seconds - 0.02
            if begin > 0:
                centre = float(rng.uniform(1500, 3500))
                bursts.append(Burst(begin, seconds, centre, 1.2, float(rng.uniform(-42, -28)), False))
    return bursts


def plan_voice(performance: Performance, singer: Singer, samples: int, rng: np.random.Generator) -> VoicePlan:
    """Control curves and labels of the melody of a performance sung by a singer."""
    notes = _timed_notes(performance, singer, rng)
    frames = samples // HOP + 2
    f0 = _pitch_curve(notes, singer, frames, rng)
    envelope = _envelope(notes, singer, samples, rng)
    formants = _formant_curve(notes, singer, f0, rng)
    return VoicePlan(tuple(notes), f0, formants, envelope, tuple(_bursts(notes, singer, rng)))
