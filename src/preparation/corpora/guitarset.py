"""GuitarSet (Xi et al. 2018): six players, thirty pieces each as accompaniment and as solo.

``annotation/PLAYER_STYLEn-TEMPO-KEY_{comp,solo}.jams``; its two recordings in ``audio_mono-mic``
(``*_mic.wav``) and ``audio_mono-pickup_mix`` (``*_mix.wav``) are songs of their own.

``progression_1`` to ``progression_3`` and the styles (``BN`` ``Funk`` ``Jazz`` ``Rock`` ``SS``) are
folds. ``train``, ``validation`` and ``test`` hold four, one and one of the players of each piece, drawn
by a hash of the piece. ``*_pshift`` splits hold each recording shifted by -5 to +5 semitones, detuned by
up to 10 cents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ...audio.reading import Samples, read_audio
from ...data.augment.pitch import PitchShift, shift_audio
from ...notes.note import NoteArray
from .corpus import Corpus, Found, Stem
from .labels import naming, pitched_notes, read_text, transposed

LICENCE = "CC BY 4.0"
PROGRAM = 24
STYLES = ("BN", "Funk", "Jazz", "Rock", "SS")
SHIFTS = range(-5, 6)
DETUNE = 0.1
"""Largest detuning of the shifted recordings in semitones."""
RECORDINGS = {"mic": "audio_mono-mic", "mix": "audio_mono-pickup_mix"}
_NAME = re.compile(r"(?P<player>\d\d)_(?P<style>BN|Funk|Jazz|Rock|SS)(?P<progression>[123])-.*_(comp|solo)")
_SHIFTED = (*("train", "progression_1", "progression_2", "progression_3"), *STYLES)
SPLITS = (
    *("train", "validation", "test", "all", "progression_1", "progression_2", "progression_3"),
    *STYLES,
    *(f"{split}_pshift" for split in _SHIFTED),
)


@dataclass(frozen=True)
class JamsLabels:
    """Notes of the six strings of a JAMS file; calling it reads them."""

    path: Path
    semitones: int = 0

    def __call__(self) -> NoteArray:
        """The notes, pitches rounded."""
        try:
            told = json.loads(read_text(self.path))
            rows = [row for part in told["annotations"] for row in _note_rows(part)]
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"{self.path}: is no JAMS file with notes ({error})") from None
        with naming(self.path):
            return transposed(pitched_notes(rows, PROGRAM), self.semitones)


@dataclass(frozen=True)
class ShiftedSound:
    """A recording at another pitch and the same speed; calling it reads and shifts."""

    path: Path
    semitones: int
    detune: float

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,)."""
        audio = read_audio(self.path, sample_rate)
        return shift_audio(audio, PitchShift(self.semitones, self.detune, keeps_time=True), len(audio))


def find(source: Path) -> Found:
    """All pieces, each in its recordings and shifts."""
    annotations = {path.stem: path for path in sorted(source.rglob("*.jams")) if _NAME.fullmatch(path.stem)}
    held_out = _held_out(annotations)
    found = Found()
    for kind, folder in RECORDINGS.items():
        if not any(source.rglob(f"*_{kind}.wav")):
            found.remarks.append(f"no recordings *_{kind}.wav (folder {folder})")
            continue
        sounds = {path.stem.removesuffix(f"_{kind}"): path for path in source.rglob(f"*_{kind}.wav")}
        for piece, jams in annotations.items():
            sound = sounds.get(piece, source / folder / f"{piece}_{kind}.wav")
            splits = _splits(piece, held_out)
            meta = {"source": f"GuitarSet/{sound.name}", "licence": LICENCE}
            shifted = [f"{split}_pshift" for split in splits if split in _SHIFTED]
            for semitones in SHIFTS:
                own = [*shifted, *(splits if semitones == 0 else ())]
                detune = _detune(sound.stem, semitones)
                stem = Stem("guitar", ShiftedSound(sound, semitones, detune), (PROGRAM,))
                song_id = f"{piece}_{kind}" + (f"_pshift{semitones:+d}" if semitones else "")
                found.add(song_id, own, [stem], JamsLabels(jams, semitones), [sound, jams], **meta)
    return found


def _note_rows(part: dict[str, Any]) -> Iterator[tuple[float, float, float]]:
    """Onset, offset and pitch of an annotation of notes; older JAMS files hold columns, newer ones rows."""
    if part.get("namespace") not in ("note_midi", "pitch_midi"):
        return
    data = part["data"]
    names = ("time", "duration", "value")
    columns = [data[name] for name in names] if isinstance(data, dict) else None
    rows = zip(*columns, strict=True) if columns else ([row[name] for name in names] for row in data)
    for time, duration, value in rows:
        yield float(time), float(time) + float(duration), float(value)


def _held_out(pieces: dict[str, Path]) -> dict[str, tuple[str, str]]:
    """The players of validation and test of each piece, whoever is there."""
    players: dict[str, list[str]] = {}
    for name in pieces:
        players.setdefault(name[3:], []).append(name[:2])
    chosen = {}
    for piece, own in players.items():
        ranked = sorted(own, key=lambda player: sha256(f"{player} {piece}".encode()).digest())
        chosen[piece] = (ranked[0], ranked[1] if len(ranked) > 1 else "")
    return chosen


def _splits(name: str, held_out: dict[str, tuple[str, str]]) -> list[str]:
    found = _NAME.fullmatch(name)
    assert found is not None
    validation, test = held_out[name[3:]]
    part = {validation: "validation", test: "test"}.get(found["player"], "train")
    return [part, "all", f"progression_{found['progression']}", found["style"]]


def _detune(name: str, semitones: int) -> float:
    """A detuning between -10 and 10 cents that a recording and its shift always get."""
    if semitones == 0:
        return 0.0
    seed = int.from_bytes(sha256(f"{name} {semitones}".encode()).digest()[:8], "big")
    return float(np.random.default_rng(seed).uniform(-DETUNE, DETUNE))


_ALL = {"all": 720, "train": 480, "validation": 120, "test": 120}

CORPUS = Corpus(
    "guitarset",
    "GuitarSet",
    LICENCE,
    find,
    editions=(_ALL, {split: count // 2 for split, count in _ALL.items()}),
    splits=SPLITS,
)
