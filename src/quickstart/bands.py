"""The accompaniment: who plays what, and its sound from the General MIDI sound font of pretty_midi.

One render per stem at 16 kHz by symusic, mono. Scores are written at 960 ticks per quarter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..notes.note import DRUM_PROGRAM
from .songs import INSTALL_HINT, Floats, Performance, ScoreNote, package_folder
from .sound_font import font_for_symusic

SAMPLE_RATE = 16000
_TICKS = 960
_BPM = 120.0
_AUDIBLE = 1e-3
_TAIL = 1.5
"""Seconds of sound kept after the last note of a stem."""

# Programs with a clear pitch and an attack within about 50 ms, by class of the table gm_plus.
UPPER_PROGRAMS = {
    "Piano": (0, 1, 2, 4, 5, 6, 7),
    "Chromatic Percussion": (8, 11, 12),
    "Organ": (16, 17, 18, 19, 20, 21, 22),
    "Guitar": (24, 25, 26, 27, 28),
    "Strings": (40, 41, 42, 45, 46, 48, 49, 50),
    "Brass": (56, 57, 59, 60, 61),
    "Reed": (64, 65, 66, 68, 69, 71),
    "Pipe": (72, 73, 74, 75, 79),
    "Synth Lead": (80, 81),
    "Synth Pad": (88, 89, 90),
}
_CLASS_WEIGHTS = (4.0, 1.0, 2.0, 3.5, 3.5, 1.5, 1.5, 1.5, 0.5, 1.0)
_QUIET_DRUMS = {42, 44, 46, 51, 54}
_QUIET_GAIN = 10 ** (11 / 20)
"""The font's hi-hats, ride and tambourine are 25 dB under its bass drum; this brings them up."""
BASS_PROGRAMS = (32, 33, 34, 35, 38, 42, 43, 58, 70)


@dataclass(frozen=True)
class PlayedNote:
    """A note of a stem in seconds."""

    onset: float
    offset: float
    pitch: int
    velocity: int


@dataclass(frozen=True)
class Part:
    """One stem before rendering."""

    name: str
    program: int
    """General MIDI program; 128 for drums."""
    notes: tuple[PlayedNote, ...]


def _play(
    notes: list[ScoreNote], performance: Performance, level: float, rng: np.random.Generator
) -> tuple[PlayedNote, ...]:
    """Give written notes their seconds, jitter, length and velocity."""
    if not notes:
        return ()
    starts = performance.timing.seconds(np.array([n.start for n in notes]))
    ends = performance.timing.seconds(np.array([n.start + n.length for n in notes]))
    jitter = np.clip(rng.normal(0.0, 0.008, len(notes)), -0.02, 0.02)
    lengths = (ends - starts) * rng.uniform(0.80, 0.98, len(notes))
    velocities = np.clip(rng.normal(level, 9.0, len(notes)), 30, 120)
    onsets = np.maximum(starts + jitter, 0.0)
    offsets = onsets + np.maximum(lengths, 0.04)
    return tuple(
        PlayedNote(float(a), float(b), n.pitch, int(v))
        for a, b, n, v in zip(onsets, offsets, notes, velocities, strict=True)
    )


def _pulsed(notes: tuple[ScoreNote, ...], unit: float) -> list[ScoreNote]:
    """Long notes repeated in steps of ``unit`` quarters."""
    out: list[ScoreNote] = []
    for note in notes:
        count = max(1, round(note.length / unit))
        step = note.length / count
        out.extend(ScoreNote(note.start + i * step, step, note.pitch) for i in range(count))
    return out


def _chords(performance: Performance) -> list[tuple[float, float, tuple[int, int, int]]]:
    """Start, length and pitch classes of plain triads that fit a melody, one per bar or half bar."""
    melody, bar = performance.melody, performance.tune.bar
    weights = np.zeros(12)
    for note in melody:
        weights[note.pitch % 12] += note.length
    scale = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1], dtype=np.float64)
    bonus = np.zeros(12)
    bonus[melody[-1].pitch % 12] = 0.15 * weights.sum()
    tonic = int(np.argmax([np.roll(scale, k) @ weights + bonus[k] for k in range(12)]))
    triads = [((0, 4, 7), 0.2), ((5, 9, 0), 0.1), ((7, 11, 2), 0.15), ((9, 0, 4), 0.0), ((2, 5, 9), 0.0)]
    span = bar / 2 if bar >= 3.9 else bar
    position = performance.tune.pickup
    end = melody[-1].start + melody[-1].length
    chords = []
    while position < end - 0.1:
        heard = np.zeros(12)
        for note in melody:
            overlap = min(note.start + note.length, position + span) - max(note.start, position)
            if overlap > 0:
                heard[(note.pitch - tonic) % 12] += overlap
        fits = [sum(heard[list(triad)]) / (heard.sum() + 1e-9) + prior for triad, prior in triads]
        triad = triads[int(np.argmax(fits))][0]
        a, b, c = ((step + tonic) % 12 for step in triad)
        chords.append((position, min(span, end - position), (a, b, c)))
        position += span
    return chords


def _invented(performance: Performance, rng: np.random.Generator) -> list[list[ScoreNote]]:
    """Chords, bass and held notes for a tune that comes without accompaniment."""
    base = int(rng.integers(52, 62))
    style = str(rng.choice(("block", "offbeat", "arpeggio", "strum")))
    walking = rng.random() < 0.5
    comp: list[ScoreNote] = []
    bass: list[ScoreNote] = []
    held: list[ScoreNote] = []
    for start, length, classes in _chords(performance):
        pitches = sorted(base + (pc - base) % 12 for pc in classes)
        beats = max(1, round(length))
        step = length / beats
        if style == "block":
            comp += [ScoreNote(start, length, p) for p in pitches]
        elif style == "strum":
            comp += [ScoreNote(start + i * step, step, p) for i in range(beats) for p in pitches]
        elif style == "offbeat":
            comp += [ScoreNote(start + (i + 0.5) * step, step / 2, p) for i in range(beats) for p in pitches]
        else:
            order = [0, 1, 2, 1] if base % 2 else [0, 2, 1, 2]
            half = step / 2
            comp += [ScoreNote(start + i * half, half, pitches[order[i % 4]]) for i in range(2 * beats)]
        root = 36 + (classes[0] - 36) % 12
        if walking:
            bass += [ScoreNote(start + i * step, step, root + (7 if i % 2 else 0)) for i in range(beats)]
        else:
            bass.append(ScoreNote(start, length, root))
        held += [ScoreNote(start, length, p + 12) for p in pitches[-2:]]
    return [held, comp, bass]


def arrange(performance: Performance, count: int, rng: np.random.Generator) -> list[Part]:
    """``count`` (1 to 3) accompanying stems with distinct programs."""
    if performance.parts:
        lines: list[list[ScoreNote]] = [list(part) for part in performance.parts]
        if rng.random() < 0.2:
            unit = float(rng.choice((0.5, 1.0)))
            which = int(rng.integers(3))
            lines[which] = _pulsed(tuple(lines[which]), unit)
        names = ["alto", "tenor", "bass"]
    else:
        lines = _invented(performance, rng)
        names = ["held", "chords", "bass"]
    chosen = sorted(rng.permutation(3)[:count].tolist())
    used: set[int] = set()
    parts: list[Part] = []
    classes = list(UPPER_PROGRAMS)
    chances = np.array(_CLASS_WEIGHTS) / sum(_CLASS_WEIGHTS)
    for index in chosen:
        while True:
            if names[index] == "bass" and rng.random() < 0.6:
                program = int(rng.choice(BASS_PROGRAMS))
            else:
                program = int(rng.choice(UPPER_PROGRAMS[classes[int(rng.choice(len(classes), p=chances))]]))
            if program not in used:
                break
        used.add(program)
        level = float(rng.uniform(62, 92))
        parts.append(Part(names[index], program, _play(lines[index], performance, level, rng)))
    return parts


# Hits of one bar: (position as a share of the bar, General MIDI drum pitch, velocity).
Pattern = tuple[tuple[float, int, int], ...]


def _grid(pitch: int, places: tuple[float, ...], velocity: int) -> Pattern:
    return tuple((place, pitch, velocity) for place in places)


_EIGHTHS = tuple(i / 8 for i in range(8))
_SIXTEENTHS = tuple(i / 16 for i in range(16))
_SWING = (0.0, 0.25, 5 / 12, 0.5, 0.75, 11 / 12)
_QUARTERS = (0.0, 0.25, 0.5, 0.75)
_DUPLE: tuple[Pattern, ...] = (
    _grid(36, (0.0, 0.5), 100) + _grid(38, (0.25, 0.75), 98) + _grid(42, _EIGHTHS, 72),
    _grid(36, (0.0, 0.375, 0.5), 100) + _grid(38, (0.25, 0.75), 100) + _grid(42, _EIGHTHS, 76),
    _grid(36, _QUARTERS, 102) + _grid(38, (0.25, 0.75), 86) + _grid(46, (0.125, 0.375, 0.625, 0.875), 78),
    _grid(36, (0.0, 0.4375, 0.625), 96) + _grid(38, (0.5,), 104) + _grid(42, _SIXTEENTHS, 62),
    _grid(36, (0.0, 0.5), 80) + _grid(37, (0.25, 0.625, 0.875), 84) + _grid(51, _QUARTERS, 74),
    _grid(51, _SWING, 84) + _grid(44, (0.25, 0.75), 76) + _grid(36, (0.0,), 66),
    _grid(36, (0.0, 0.3125, 0.5), 96) + _grid(45, (0.125, 0.375, 0.625), 84) + _grid(38, (0.25, 0.75), 80),
    _grid(36, (0.0, 0.625), 96) + _grid(39, (0.25, 0.75), 96) + _grid(54, _EIGHTHS, 66),
)
_TRIPLE: tuple[Pattern, ...] = (
    _grid(36, (0.0,), 98) + _grid(38, (1 / 3, 2 / 3), 80) + _grid(42, (0.0, 1 / 3, 2 / 3), 72),
    _grid(36, (0.0, 0.5), 96) + _grid(38, (2 / 3,), 92) + _grid(42, tuple(i / 6 for i in range(6)), 72),
    _grid(36, (0.0,), 88) + _grid(37, (1 / 3, 2 / 3), 76) + _grid(51, (0.0, 1 / 3, 0.5, 2 / 3), 76),
)


def drum_part(performance: Performance, rng: np.random.Generator) -> Part:
    """A drum stem that follows the bars: one pattern, hits left out or added, fills and crashes."""
    tune = performance.tune
    triple = abs(tune.bar % 1.5) < 1e-6
    patterns = _TRIPLE if triple else _DUPLE
    pattern = patterns[int(rng.integers(len(patterns)))]
    bar = tune.bar if tune.bar > 2.4 else 2 * tune.bar
    end = performance.melody[-1].start + performance.melody[-1].length
    phrase = int(rng.choice((4, 8)))
    drop, ghost = float(rng.uniform(0.0, 0.15)), float(rng.uniform(0.0, 0.1))
    position = tune.pickup if tune.pickup <= bar else 0.0
    hits: list[tuple[float, int, float]] = []
    number = 0
    while position < end:
        fill = number % phrase == phrase - 1 and rng.random() < 0.8
        if number and number % phrase == 0 and rng.random() < 0.7:
            hits.append((position, 49, 96.0))
        for place, pitch, velocity in pattern:
            if (fill and place >= 0.5) or rng.random() < drop:
                continue
            hits.append((position + place * bar, pitch, velocity + rng.normal(0.0, 8.0)))
        if fill:
            toms = (38, 50, 47, 45, 41)
            count = int(rng.choice((4, 6, 8)))
            for i in range(count):
                pitch = toms[min(4, i * 5 // count)]
                hits.append((position + bar * (0.5 + 0.5 * i / count), pitch, 84 + rng.normal(0.0, 8.0)))
        if rng.random() < ghost:
            hits.append((position + bar * float(rng.integers(1, 16)) / 16, 38, 48.0))
        position += bar
        number += 1
    seconds = performance.timing.seconds(np.array([hit[0] for hit in hits]))
    seconds = np.maximum(seconds + np.clip(rng.normal(0.0, 0.005, len(hits)), -0.015, 0.015), 0.0)
    kept: dict[int, float] = {}
    notes = []
    for order in np.argsort(seconds, kind="stable"):
        place, pitch, velocity = hits[order]
        onset = float(seconds[order])
        if place >= end or onset - kept.get(pitch, -1.0) < 0.04:
            continue
        kept[pitch] = onset
        notes.append(PlayedNote(onset, onset + 0.01, pitch, int(np.clip(velocity, 25, 127))))
    return Part("drums", DRUM_PROGRAM, tuple(notes))


@cache
def _sound_font() -> tuple[Any, str]:
    """symusic and the path of the sound font."""
    font = package_folder("pretty_midi") / "TimGM6mb.sf2"
    package_folder("symusic")
    import symusic

    if not font.is_file():
        raise ValueError(f"the sound font {font} is missing; reinstall pretty_midi: {INSTALL_HINT}")
    return symusic, font_for_symusic(Path(font))


def _render_notes(notes: Sequence[PlayedNote], program: int, samples: int) -> Floats:
    symusic, font = _sound_font()
    synthesizer = symusic.Synthesizer(font, SAMPLE_RATE, 4)  # a used one renders string ensembles otherwise
    ticks = _TICKS * _BPM / 60.0
    drums = program == DRUM_PROGRAM
    track = symusic.Track(program=0 if drums else program, is_drum=drums)
    for note in notes:
        length = 0.25 if drums else note.offset - note.onset
        track.notes.append(
            symusic.Note(round(note.onset * ticks), max(1, round(length * ticks)), note.pitch, note.velocity)
        )
    score = symusic.Score(_TICKS)
    score.tempos.append(symusic.Tempo(0, _BPM))
    score.tracks.append(track)
    sound = np.asarray(synthesizer.render(score, stereo=True), dtype=np.float64).mean(axis=0)
    out = np.zeros(samples)
    count = min(samples, len(sound), round((max(note.offset for note in notes) + _TAIL) * SAMPLE_RATE))
    out[:count] = sound[:count]
    return out


def render(part: Part, samples: int) -> Floats:
    """Sound of a stem, mono float64, cut or padded to ``samples``."""
    out = np.zeros(samples)
    quiet = [n for n in part.notes if part.program == DRUM_PROGRAM and n.pitch in _QUIET_DRUMS]
    loud = [n for n in part.notes if n not in quiet] if quiet else part.notes
    if loud:
        out += _render_notes(loud, part.program, samples)
    if quiet:
        out += _QUIET_GAIN * _render_notes(quiet, part.program, samples)
    return out


def audible(part: Part) -> Part:
    """The part without the notes that its instrument has no sound for."""
    return replace(part, notes=tuple(note for note in part.notes if is_audible(part.program, note.pitch)))


@cache
def is_audible(program: int, pitch: int) -> bool:
    """Whether the font has a sound for a pitch of a program: some instruments have gaps."""
    probe = PlayedNote(0.0, 0.3, pitch, 90)
    sound = _render_notes([probe], program, round(0.4 * SAMPLE_RATE))
    return bool(np.abs(sound).max() > _AUDIBLE)
