"""What is wrong with one song of a store, as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.store import Song, SongStore, StemArray, mix_stems
from ..notes.note import CHORUS_PROGRAM, SINGING_PROGRAM, NoteArray, note_programs
from .fingerprints import Grams, Prints, note_grams, sound_prints
from .octaves import octave_votes
from .onsets import MIN_CLARITY, estimate_shift, onset_strength

SILENCE = 33
"""A sample value: -60 dBFS."""
_FULL = 32767
_RUN = 3
"""Samples at full scale in a row that make a clip."""
_HOP = 160
_LISTEN_SECONDS = 0.5
"""Part of a note in which something must sound."""
_SLACK_SECONDS = 0.05
"""Notes may end this much after their sound."""
PITCHES = (21, 108)
"""Range of a piano."""
VOICE_PITCHES = (33, 93)
"""From the lowest bass to the highest soprano."""


@dataclass
class SongFacts:
    """Numbers of one song."""

    seconds: float = 0.0
    num_notes: int = 0
    error: str = ""
    """Why it cannot be read; then nothing else is known."""
    without_notes: bool = False
    """The song is meant to have no notes, or has instruments that nobody wrote down."""
    peak_db: float = -math.inf
    """Largest sample of the mix, dBFS."""
    clipped: float = 0.0
    """Share of samples in runs at full scale, in the worst stem."""
    overloaded: float = 0.0
    """Share of samples where the stems add up to more than full scale."""
    notes_after_end: int = 0
    notes_cut_off: int = 0
    """Notes that sound on after the end."""
    silent_notes: int = 0
    """Notes during which their stem is silent."""
    notes_out_of_range: int = 0
    shift_ms: float | None = None
    """How late the labels are; None when it cannot be told."""
    octave: int = 0
    """Octaves by which the voice sounds above its labels, as most of its notes say."""
    prints: Prints = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    grams: Grams = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def as_dict(self) -> dict[str, Any]:
        """What is written to JSON."""
        hidden = ("prints", "grams")
        plain = {key: value for key, value in vars(self).items() if key not in hidden}
        return {**plain, "peak_db": self.peak_db if math.isfinite(self.peak_db) else None}


def look_at(job: tuple[str, str, int]) -> SongFacts:
    """:func:`check_song` of a store's folder, a split and the number of a song, for another process."""
    path, split, number = job
    return check_song(_store(path).song(split, number))


@cache
def _store(path: str) -> SongStore:
    return SongStore.open(path)


def check_song(song: Song) -> SongFacts:
    """Look at all samples and notes of a song."""
    facts = SongFacts(seconds=song.num_samples / song.sample_rate, num_notes=song.num_notes)
    try:
        stems, notes = song.stems, song.notes
        facts.without_notes = bool(song.meta.get("without_notes")) or bool(song.unannotated)
        programs = song.stem_programs
    except ValueError as error:
        facts.error = str(error)
        return facts
    if not song.num_samples:
        return facts
    mix = mix_stems(np.asarray(stems))
    peak = float(np.abs(mix).max())
    facts.peak_db = 20 * math.log10(peak) if peak > 0 else -math.inf
    facts.clipped = max((_clipped(stem) for stem in stems), default=0.0)
    if len(stems) > 1:
        total = np.asarray(stems).sum(axis=0, dtype=np.int32)
        facts.overloaded = float((np.abs(total) > _FULL + 1).mean())
    _check_notes(facts, notes, stems, programs, song.sample_rate)
    found = estimate_shift(onset_strength(mix, song.sample_rate), notes["onset"], song.sample_rate)
    if found is not None and found[1] >= MIN_CLARITY:
        facts.shift_ms = round(found[0], 1)
    sung = [stem for stem, own in zip(stems, programs, strict=True) if SINGING_PROGRAM in own]
    if sung:
        voice = notes[note_programs(notes) == SINGING_PROGRAM]
        facts.octave = octave_votes(mix_stems(np.stack(sung)), voice, song.sample_rate)
    facts.prints, facts.grams = sound_prints(mix, song.sample_rate), note_grams(notes)
    return facts


def _clipped(stem: npt.NDArray[np.int16]) -> float:
    """Share of samples in runs of at least ``_RUN`` at full scale."""
    full = np.abs(np.asarray(stem).astype(np.int32)) >= _FULL
    if not full.any():
        return 0.0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], full.view(np.int8), [0]))))
    lengths = edges[1::2] - edges[::2]
    return float(lengths[lengths >= _RUN].sum() / len(full))


def _check_notes(
    facts: SongFacts, notes: NoteArray, stems: StemArray, programs: list[list[int]], sample_rate: int
) -> None:
    pitched = ~notes["is_drum"]
    end = facts.seconds
    after = notes["onset"] >= end
    facts.notes_after_end = int(after.sum())
    facts.notes_cut_off = int((~after & pitched & (notes["offset"] > end + _SLACK_SECONDS)).sum())
    voices = np.isin(notes["program"], (SINGING_PROGRAM, CHORUS_PROGRAM))
    low = np.where(voices, VOICE_PITCHES[0], PITCHES[0])
    high = np.where(voices, VOICE_PITCHES[1], PITCHES[1])
    facts.notes_out_of_range = int((pitched & ((notes["pitch"] < low) | (notes["pitch"] > high))).sum())
    own = note_programs(notes)
    for program in np.unique(own):
        playing = [stem for stem, group in zip(stems, programs, strict=True) if int(program) in group]
        heard = _sounding(playing)
        mine = notes[(own == program) & ~after]
        length = np.clip(mine["offset"] - mine["onset"], 2 * _HOP / sample_rate, _LISTEN_SECONDS)
        first = np.minimum((mine["onset"] * sample_rate / _HOP).astype(np.int64), len(heard) - 1)
        last = np.ceil((mine["onset"] + length) * sample_rate / _HOP).astype(np.int64) + 1
        last = np.minimum(last, len(heard) - 1)
        facts.silent_notes += int((heard[last] == heard[first]).sum())


def _sounding(stems: list[npt.NDArray[np.int16]]) -> npt.NDArray[np.int64]:
    """(frames + 1,) how many frames before each are louder than silence in one of the stems."""
    loud: npt.NDArray[np.bool_] | None = None
    for stem in stems:
        samples = np.abs(np.asarray(stem).astype(np.int32))
        padded = np.pad(samples, (0, -len(samples) % _HOP))
        own = padded.reshape(-1, _HOP).max(axis=1) > SILENCE
        loud = own if loud is None else loud | own
    counts = np.cumsum(loud if loud is not None else np.zeros(1, dtype=bool))
    return np.concatenate(([0], counts)).astype(np.int64)
