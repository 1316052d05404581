"""IDMT-SMT-BASS (Abesser et al. 2010): single notes of electric basses.

WAV files in any folders. The parts of a name (or of the folders above it) that ``_`` divides say the
plucking style (:data:`PROGRAMS`) and, as the last two numbers, string (1 is the low E) and fret:
``BS_1_EQ_1_FS_NO_2_10.wav``. Notes of another expression style than ``NO`` have no single pitch or length
and are left out.

Onset and end are where the sound rises above and falls below a share of its peak. Silence is added on
both sides. There are no published splits: a fifth of the pairs of style, string and fret, drawn by a
hash, is ``validation``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...audio.reading import Samples, read_audio
from ...data.shares import split_of
from ...notes.note import NoteArray
from .corpus import Corpus, Found, Stem, audio_files
from .labels import naming, pitched_notes

LICENCE = "CC BY-NC-ND 4.0"
PROGRAMS = {"FS": 33, "MU": 33, "PK": 34, "SP": 36, "ST": 37}
"""Plucking style (finger, muted, pick, slap by pulling, slap by thumb) to MIDI program."""
OTHER_EXPRESSIONS = frozenset({"BE", "DN", "HA", "SL", "VI", "BEQ", "BES", "SLD", "SLU", "VIF", "VIS"})
OPEN_STRINGS = {1: 28, 2: 33, 3: 38, 4: 43, 5: 48}
MOST_FRETS = 24
SILENCE = 1.8
"""Seconds added on each side."""
FRAME = 256
"""Samples (16 kHz) of the frames whose peaks are looked at."""
RISE, FALL = 0.05, 0.02
"""Shares of the peak where a note starts and ends."""
_RATE = 16000


@dataclass(frozen=True)
class SilencedSound:
    """A file with silence on both sides; calling it reads it."""

    path: Path

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,)."""
        return np.pad(read_audio(self.path, sample_rate), round(SILENCE * sample_rate))


@dataclass(frozen=True)
class NamedLabels:
    """One note whose pitch the file's name says and whose times the sound; calling it reads that."""

    path: Path
    pitch: int
    program: int

    def __call__(self) -> NoteArray:
        """The note, where :class:`SilencedSound` has it; raises ``ValueError`` for silence."""
        onset, offset = sounding(read_audio(self.path, _RATE))
        with naming(self.path):
            if offset <= onset:
                raise ValueError("is silent, so its note has no time")
            return pitched_notes([(SILENCE + onset, SILENCE + offset, self.pitch)], self.program)


def sounding(audio: Samples) -> tuple[float, float]:
    """Seconds of the first frame above :data:`RISE` of the peak, and of the end of the last above
    :data:`FALL`."""
    count = -(-len(audio) // FRAME)
    frames = np.abs(np.pad(audio, (0, count * FRAME - len(audio)))).reshape(count, FRAME).max(axis=1)
    if not frames.any():
        return 0.0, 0.0
    level = frames / frames.max()
    first = int(np.argmax(level >= RISE))
    last = int(np.flatnonzero(level >= FALL)[-1]) + 1
    return first * FRAME / _RATE, last * FRAME / _RATE


def find(source: Path) -> Found:
    """All notes whose names can be read."""
    found = Found()
    strange: list[Path] = []
    expressive = 0
    for sound in audio_files(source):
        words = [*sound.relative_to(source).parent.parts, sound.stem]
        parts = [part.upper() for word in words for part in re.split(r"[_\-]", word)]
        numbers = [int(part) for part in re.split(r"[_\-]", sound.stem) if part.isdecimal()][-2:]
        styles = [part for part in parts if part in PROGRAMS]
        if OTHER_EXPRESSIONS & set(parts):
            expressive += 1
            continue
        if not styles or len(numbers) < 2 or numbers[0] not in OPEN_STRINGS or numbers[1] > MOST_FRETS:
            strange.append(sound)
            continue
        style, (string, fret) = styles[-1], numbers
        program = PROGRAMS[style]
        split = "validation" if split_of(f"{style} {string} {fret}", 0, 0.2, 0.0) == "validation" else "train"
        labels = NamedLabels(sound, OPEN_STRINGS[string] + fret, program)
        name = sound.relative_to(source).with_suffix("").as_posix()
        meta = {"source": f"IDMT-SMT-BASS/{name}", "licence": LICENCE}
        stems = [Stem("bass", SilencedSound(sound), (program,))]
        found.add(name.replace("/", "__"), (split,), stems, labels, [sound], **meta)
    if expressive:
        found.remarks.append(f"{expressive} notes of other expression styles than NO are left out")
    if strange:
        found.remarks.append(
            f"{len(strange)} files whose names do not say plucking style, string and fret are left out, "
            f"such as {strange[0]}"
        )
    return found


CORPUS = Corpus("idmt_smt_bass", "IDMT-SMT-BASS", LICENCE, find, splits=("train", "validation"))
