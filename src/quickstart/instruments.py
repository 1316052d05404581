"""Notes of any song played by the quick-start instruments: singers, a drum kit, General MIDI programs."""

from __future__ import annotations

import hashlib
import warnings

import numpy as np

from ..notes.note import CHORUS_PROGRAM, DRUM_PROGRAM, NOTE_DTYPE, SINGING_PROGRAM, NoteArray
from . import bands, mixes, singers, songs, voices

_LEAD = 0.5
"""Seconds sung before the song begins, for the consonant of a note at 0 s."""
_TAIL = 1.5
"""Seconds a song goes on after its last note."""
_TOUCH = 0.05
"""Notes of one voice may overlap by that many seconds: it moves on early."""
_SECONDS = songs.Timing(60.0, (0.0, 16.0, 0.0), 0.0, 0.0, ())
"""Scores in quarters of one second."""
_CANDIDATES = 64
_SUNG = (24, 96)
"""Pitches that are sung: beyond them too few harmonics are left, or too many."""


def play(notes: NoteArray, seed: int) -> tuple[list[songs.Floats], list[int], NoteArray]:
    """Sound of each program of a song, mono float64 at 16 kHz, its program, and the notes as they are played.

    Programs 100 and 101 are sung, each line of a chord by a singer of its own; the label of a sung note moves
    by up to 20 ms, to where its vowel starts. Stems have the levels of the quick-start training songs. Equal
    notes and seeds give equal sound. Notes that nobody can play are left out, with a warning.

    Args:
        notes: of the song; at least one.
        seed: of singers and small variations of the levels.

    Raises:
        ValueError: when a package of the extra ``quickstart`` is missing.
    """
    for package in ("pretty_midi", "symusic"):
        songs.package_folder(package)
    samples = round((float(notes["offset"].max()) + _TAIL) * bands.SAMPLE_RATE)
    programs = np.where(notes["is_drum"], DRUM_PROGRAM, notes["program"])
    stems, played, order = [], [], sorted(set(programs.tolist()))
    for program in order:
        own = _audible(notes[programs == program], program)
        rng = songs.generator(seed, "play", program, hashlib.sha256(own.tobytes()).hexdigest())
        if program in (SINGING_PROGRAM, CHORUS_PROGRAM):
            sound, own = _sing(own, program, samples, rng)
        else:
            part = [
                bands.PlayedNote(float(n["onset"]), float(n["offset"]), int(n["pitch"]), int(n["velocity"]))
                for n in own
            ]
            sound = bands.render(bands.Part("", program, tuple(part)), samples)
        level = mixes.VOICE_DB if program == SINGING_PROGRAM else mixes.BAND_DB
        stems.append(mixes.nominal(sound, level, rng))
        played.append(own)
    return stems, order, np.concatenate(played)


def _audible(notes: NoteArray, program: int) -> NoteArray:
    """The notes that the font has a sound for, or that a voice can sing."""
    sung = program in (SINGING_PROGRAM, CHORUS_PROGRAM)
    heard = np.array(
        [
            _SUNG[0] <= pitch <= _SUNG[1] if sung else bands.is_audible(program, pitch)
            for pitch in notes["pitch"].tolist()
        ],
        dtype=bool,
    )
    if not heard.all():
        gaps = ", ".join(str(pitch) for pitch in np.unique(notes["pitch"][~heard]).tolist())
        warnings.warn(
            f"{(~heard).sum()} notes of program {program} cannot be played and are left out (pitch {gaps})",
            stacklevel=3,
        )
    kept: NoteArray = notes[heard]
    return kept


def _sing(
    notes: NoteArray, program: int, samples: int, rng: np.random.Generator
) -> tuple[songs.Floats, NoteArray]:
    total = np.zeros(samples)
    rows = []
    for number, line in enumerate(_lines(notes)):
        singer = _singer_for(line, number, rng)
        melody = [
            songs.ScoreNote(float(n["onset"]) + _LEAD, float(n["offset"] - n["onset"]), int(n["pitch"]))
            for n in line
        ]
        lead = round(_LEAD * singers.SAMPLE_RATE)
        performance = _performance(tuple(melody), samples + lead)
        plan = singers.plan_voice(performance, singer, samples + lead, rng)
        total += voices.sing(plan, singer, rng)[lead:]
        rows += [
            (max(note.onset - _LEAD, 0.0), note.offset - _LEAD, note.pitch, program, note.velocity, False)
            for note in plan.notes
        ]
    return total, np.array(rows, dtype=NOTE_DTYPE)


def _performance(melody: tuple[songs.ScoreNote, ...], samples: int) -> songs.Performance:
    tune = songs.Tune("", "midi", melody, (), 4.0, 0.0)
    return songs.Performance(tune, melody, (), _SECONDS, samples / singers.SAMPLE_RATE)


def _lines(notes: NoteArray) -> list[NoteArray]:
    """The notes in lines of one note at a time; high notes first where several start together."""
    lines: list[list[int]] = []
    order = np.lexsort((-notes["pitch"].astype(np.int64), notes["onset"]))
    for index in order.tolist():
        onset = float(notes["onset"][index])
        for line in lines:
            last = line[-1]
            if notes["offset"][last] <= onset + _TOUCH and notes["onset"][last] + 2 * _TOUCH <= onset:
                line.append(index)
                break
        else:
            lines.append([index])
    return [notes[line] for line in lines]


def _singer_for(line: NoteArray, number: int, rng: np.random.Generator) -> singers.Singer:
    """One of the singers whose range lies nearest to a line."""
    pitch = float(np.median(line["pitch"]))
    seed = int(rng.integers(2**31))
    found = [
        singers.make_singer(seed, f"midi{number}", i, singers.TRAINING_ENGINES) for i in range(_CANDIDATES)
    ]
    misses = [abs(sum(singer.range) / 2 - pitch) for singer in found]
    near = [singer for singer, miss in zip(found, misses, strict=True) if miss == min(misses)]
    return near[int(rng.integers(len(near)))]
