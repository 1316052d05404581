"""Tunes from the corpus that comes with music21: parsing, tune identity, performance in seconds.

Chorales give a melody (soprano) and three accompanying parts; fiddle tunes give a melody only.
Nothing here makes sound. music21 is imported inside :func:`load_tune` alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

INSTALL_HINT = 'pip install "amt[quickstart]"'
KEY_INTERVALS = 7
"""Intervals of the melody that name a tune."""


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the names only, not on what was drawn before."""
    digest = hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


def package_folder(name: str) -> Path:
    """Folder of an installed package, found without importing it; ``ValueError`` if it is missing."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ValueError(f"the quick-start data needs the package {name}: {INSTALL_HINT}")
    return Path(spec.origin).parent


@dataclass(frozen=True)
class ScoreNote:
    """A written note; times in quarters."""

    start: float
    length: float
    pitch: int
    breath: bool = False
    """A breath follows (fermata, or a rest)."""


@dataclass(frozen=True)
class Tune:
    """One piece of the corpus, reduced to notes."""

    source: str
    """File in the music21 corpus, folder and name."""
    kind: str
    """``chorale`` or ``folk``."""
    melody: tuple[ScoreNote, ...]
    parts: tuple[tuple[ScoreNote, ...], ...]
    """Accompanying parts from high to low; empty for folk tunes."""
    bar: float
    """Quarters per bar."""
    pickup: float
    """Quarters before the first full bar."""

    @property
    def key(self) -> str:
        """First intervals of the melody without repeated notes: equal for two settings of one tune."""
        return " ".join(str(step) for step in intervals(self.melody)[:KEY_INTERVALS])


def intervals(melody: tuple[ScoreNote, ...]) -> list[int]:
    """Steps of a melody in semitones, repeated notes left out."""
    pitches = [note.pitch for note in melody]
    return [b - a for a, b in pairwise(pitches) if a != b]


def same_tune(a: Tune, b: Tune) -> bool:
    """Whether two pieces share their opening or at least a third of their eight-interval passages."""
    if a.key == b.key:
        return True
    grams = []
    for tune in (a, b):
        steps = intervals(tune.melody)
        grams.append({tuple(steps[i : i + 8]) for i in range(max(1, len(steps) - 7))})
    return len(grams[0] & grams[1]) * 3 >= min(len(grams[0]), len(grams[1]))


def list_sources(seed: int) -> tuple[list[str], list[str]]:
    """Chorale and fiddle-tune files of the installed corpus, each in an order drawn from the seed."""
    corpus = package_folder("music21") / "corpus"
    chorales = sorted(f"bach/{p.name}" for p in (corpus / "bach").glob("bwv*.mxl") if p.stem != "bwv846")
    folk = sorted(f"ryansMammoth/{p.name}" for p in (corpus / "ryansMammoth").glob("*.abc"))
    if not chorales or not folk:
        raise ValueError(f"the music21 corpus in {corpus} is incomplete; reinstall it: {INSTALL_HINT}")
    orders = []
    for kind, names in (("chorale", chorales), ("folk", folk)):
        order = generator(seed, "order", kind).permutation(len(names))
        orders.append([names[i] for i in order])
    return orders[0], orders[1]


def _part_notes(part: Any) -> tuple[ScoreNote, ...]:
    notes: list[ScoreNote] = []
    tied = False
    for element in part.flatten().notesAndRests:
        start, length = float(element.offset), float(element.quarterLength)
        if element.isRest:
            tied = False
            if notes and length > 0 and not notes[-1].breath:
                last = notes[-1]
                notes[-1] = ScoreNote(last.start, last.length, last.pitch, True)
            continue
        if length <= 0 or (notes and start < notes[-1].start + notes[-1].length - 1e-6):
            continue  # grace notes and second voices
        pitch = int(max(p.midi for p in element.pitches))
        fermata = any("Fermata" in type(mark).__name__ for mark in element.expressions)
        kind = element.tie.type if element.tie is not None else None
        if tied and kind in ("stop", "continue") and notes[-1].pitch == pitch:
            last = notes[-1]
            notes[-1] = ScoreNote(last.start, start + length - last.start, pitch, fermata)
        else:
            notes.append(ScoreNote(start, length, pitch, fermata))
        tied = kind in ("start", "continue")
    return tuple(notes)


def load_tune(source: str) -> Tune | None:
    """Parse one file of the corpus; ``None`` if it is not usable (too short, parts missing, broken)."""
    path = package_folder("music21") / "corpus" / source
    from music21 import converter

    try:
        score = converter.parse(str(path), forceSource=True, storePickle=False)
        parts = list(score.parts)
        folk = source.startswith("ryansMammoth")
        if not folk:
            names = [str(part.partName or part.id).strip().lower() for part in parts]
            wanted = [
                next((i for i, name in enumerate(names) if name.startswith(voice)), None)
                for voice in ("soprano", "alto", "tenor", "bass")
            ]
            if None in wanted:
                if len(parts) != 4:
                    return None
                wanted = [0, 1, 2, 3]
            parts = [parts[i] for i in wanted if i is not None]
        elif len(parts) != 1:
            return None
        lines = [_part_notes(part) for part in parts]
        signature = next(iter(parts[0].flatten().getElementsByClass("TimeSignature")), None)
        bar = float(signature.barDuration.quarterLength) if signature is not None else 4.0
        measure = next(iter(parts[0].getElementsByClass("Measure")), None)
        first = float(measure.duration.quarterLength) if measure is not None else bar
    except Exception:  # a handful of corpus files fail inside music21 in many ways
        return None
    melody = lines[0]
    if len(melody) < 20 or any(len(line) < 10 for line in lines):
        return None
    if max(n.pitch for n in melody) - min(n.pitch for n in melody) > 21:
        return None
    if min(n.length for n in melody) < 0.12:  # ornaments that no voice sings one by one
        return None
    pickup = first if 0 < first < bar else 0.0
    kind = "folk" if folk else "chorale"
    return Tune(source, kind, melody, tuple(lines[1:]), bar, pickup)


@dataclass(frozen=True)
class Timing:
    """Tempo of one performance."""

    bpm: float
    drift: tuple[float, float, float]
    """Depth, period in quarters, phase of the slow drift."""
    start: float
    """Seconds of silence before the first beat."""
    fermata: float
    """Seconds by which a fermata stretches its note."""
    holds: tuple[float, ...]
    """Ends of the notes with a fermata, in quarters."""

    def seconds(self, quarters: float | Floats) -> Floats:
        """Time of a position in the score."""
        beats = np.asarray(quarters, dtype=np.float64)
        depth, period, phase = self.drift
        turn = 2 * np.pi / period
        beats_drifted = beats + depth / turn * (np.cos(phase) - np.cos(turn * beats + phase))
        waits = np.zeros_like(beats)
        for hold in self.holds:
            waits = waits + self.fermata * np.clip(beats - (hold - 1.0), 0.0, 1.0)
        return np.asarray(self.start + beats_drifted * 60.0 / self.bpm + waits, dtype=np.float64)


@dataclass(frozen=True)
class Performance:
    """What is played when: a tune cut to length, transposed, with its tempo."""

    tune: Tune
    melody: tuple[ScoreNote, ...]
    parts: tuple[tuple[ScoreNote, ...], ...]
    timing: Timing
    seconds: float


def choose_shift(melody: tuple[ScoreNote, ...], low: int, high: int, rng: np.random.Generator) -> int:
    """Semitones that bring a melody into a range: octaves and at most four semitones if that fits."""
    bottom, top = min(n.pitch for n in melody), max(n.pitch for n in melody)
    near = [12 * octave + step for octave in (-2, -1, 0, 1) for step in range(-4, 5)]
    misses = [max(0, low - bottom - shift) + max(0, top + shift - high) for shift in near]
    best = [shift for shift, miss in zip(near, misses, strict=True) if miss == min(misses)]
    return int(best[int(rng.integers(len(best)))])


def perform(
    tune: Tune,
    low: int,
    high: int,
    rng: np.random.Generator,
    max_seconds: float,
    tempo: tuple[float, float],
    rests: bool,
) -> Performance:
    """Decide transposition, tempo, length and rests of a song.

    Args:
        low, high: range of the singer in MIDI pitches.
        max_seconds: the song ends at the last note that starts well before this time.
        tempo: range of quarters per minute; slower where notes would be much shorter than 0.16 s.
        rests: whether some passages of the melody are left out.
    """
    bpm = float(rng.uniform(*tempo))
    shortest = float(np.quantile([n.length for n in tune.melody], 0.1))
    bpm = min(bpm, 60.0 * shortest / 0.16, 60.0 * min(n.length for n in tune.melody) / 0.12)
    holds = tuple(n.start + n.length for n in tune.melody if n.breath) if rng.random() < 0.5 else ()
    drift = (float(rng.uniform(0.0, 0.06)), float(rng.uniform(12.0, 40.0)), float(rng.uniform(0, 6.28)))
    timing = Timing(bpm, drift, float(rng.uniform(0.15, 0.8)), float(rng.uniform(0.1, 0.5)), holds)
    shift = choose_shift(tune.melody, low, high, rng)
    limit = max_seconds - 1.2
    melody = [n for n in tune.melody if float(timing.seconds(n.start + n.length)) < limit]
    end = melody[-1].start + melody[-1].length
    if rests:
        for _ in range(int(rng.integers(1, 3))):
            first = int(rng.integers(4, max(5, len(melody) - 8)))
            count = int(rng.integers(3, 9))
            melody = melody[:first] + melody[first + count :]
    low_shift = shift - 12 * round(shift / 12)
    parts = tuple(
        tuple(
            ScoreNote(n.start, min(n.length, end - n.start), n.pitch + low_shift)
            for n in part
            if n.start < end - 1e-6
        )
        for part in tune.parts
    )
    sung = tuple(ScoreNote(n.start, n.length, n.pitch + shift, n.breath) for n in melody)
    seconds = float(timing.seconds(end)) + 0.9
    return Performance(tune, sung, parts, timing, seconds)
