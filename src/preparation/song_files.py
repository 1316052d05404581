"""A song from its files: sound, whole or in stems, and notes; which notes belong to which stem."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..audio import read_audio
from ..config.names import counted, listing
from ..config.vocabularies import program_name
from ..data.songs import UNKNOWN_INSTRUMENTS
from ..data.store import StemArray
from ..data.store_format import to_int16
from ..notes import read_midi
from ..notes.note import DRUM_PROGRAM, NOTE_DTYPE, NoteArray, note_programs, notes_to_array
from .note_lists import NOTE_LIST_SUFFIXES, notes_from_rows, read_note_list
from .plan import LoadedSong
from .write import NOTES_CUT, NOTES_DROPPED, fit_notes

MIDI_SUFFIXES = (".mid", ".midi")


@dataclass(frozen=True)
class StemFile:
    """The sound of one or some instruments."""

    name: str
    audio: Path
    programs: tuple[int, ...] | None = None
    """Programs it may hold, the likeliest first; empty for sound without notes; None when nobody says."""
    notes: Path | None = None
    """Notes of this stem alone."""
    exact: bool = False
    """Whether ``programs`` are stated, and kept whatever the notes hold."""


@dataclass(frozen=True)
class SongFiles:
    """Where a song lies."""

    stems: tuple[StemFile, ...]
    notes: Path | tuple[tuple[float, ...], ...] | None = None
    """A file of notes, or rows of onset, offset, pitch maybe program; None where stems have their own."""
    program: int | None = None
    """Program of all pitched notes; 128 makes all notes drums."""
    label_shift_ms: float = 0.0
    """Added to the times of all notes."""
    unannotated: tuple[int, ...] | None = None
    """Programs that are heard without notes; None to take the stems without notes."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the song."""
        paths = [self.notes, *(path for stem in self.stems for path in (stem.audio, stem.notes))]
        return tuple(path for path in paths if isinstance(path, Path))


def read_song(song: SongFiles, sample_rate: int = 16000) -> LoadedSong:
    """Read a song's files.

    Notes of a stem's own file belong to the stem; those whose program it cannot hold take its first one.
    Notes of the song's file go to the stem that holds their program, the others to the one stem of which
    nobody says what it holds. A stem without notes of its own, in a song without a file of notes, is heard
    without being annotated.

    Raises:
        ValueError: for a file that cannot be read, sound without samples, and notes that fit no stem.
    """
    parts = [read_audio(stem.audio, sample_rate) for stem in song.stems]
    size = max((len(part) for part in parts), default=0)
    if not size:
        raise ValueError(f"{song.stems[0].audio}: holds no samples")
    stems: StemArray = np.zeros((len(parts), size), dtype=np.int16)
    for row, part in zip(stems, parts, strict=True):
        row[: len(part)] = to_int16(part)
    del parts
    notes, programs, heard = _deal_out(song)
    notes, before = _moved(notes, song.label_shift_ms)
    notes, dropped, cut = fit_notes(notes, size / sample_rate)
    first = song.stems[0].audio
    if dropped:
        where = song.notes if isinstance(song.notes, Path) else first
        warnings.warn(
            f"{where}: {counted(dropped, 'note')} dropped that would start after the end of {first.name}",
            stacklevel=2,
        )
    if before:
        warnings.warn(
            f"{first}: {counted(before, 'note')} dropped that would end before 0 s when shifted", stacklevel=2
        )
    unannotated = heard if song.unannotated is None else list(song.unannotated)
    meta = {**song.meta, "unannotated": unannotated}
    counts = +Counter({NOTES_DROPPED: dropped, NOTES_CUT: cut})
    return LoadedSong(stems, programs, [stem.name for stem in song.stems], notes, meta, counts)


def read_notes(path: Path, program: int | None = None) -> NoteArray:
    """Notes of a MIDI file or a list; ``program`` replaces that of the pitched ones, 128 that of all.

    Raises:
        ValueError: names the file when it cannot be read.
    """
    if path.suffix.lower() in NOTE_LIST_SUFFIXES:
        return read_note_list(path, program)
    if program == DRUM_PROGRAM:
        return notes_to_array(read_midi(path, drums=True))
    return notes_to_array(read_midi(path, program=program))


def _deal_out(song: SongFiles) -> tuple[NoteArray, list[list[int]], list[int]]:
    """All notes, the programs of each stem, and the programs that are heard without notes."""
    found: list[NoteArray] = []
    noted: list[set[int]] = [set() for _ in song.stems]
    for stem, programs in zip(song.stems, noted, strict=True):
        if stem.notes is not None:
            own = read_notes(stem.notes, song.program)
            _take_programs(own, stem.programs)
            found.append(own)
            programs |= set(note_programs(own).tolist())
    if song.notes is not None:
        if isinstance(song.notes, Path):
            shared = read_notes(song.notes, song.program)
        else:
            shared = notes_from_rows(song.notes, song.program)
        for program in sorted(set(note_programs(shared).tolist())):
            noted[_stem_of(program, song.stems)].add(program)
        found.append(shared)
    notes = np.concatenate(found) if found else np.zeros(0, dtype=NOTE_DTYPE)
    whole = len(song.stems) == 1 and song.notes is not None
    programs_of: list[list[int]] = []
    heard: list[int] = []
    for stem, programs in zip(song.stems, noted, strict=True):
        if stem.exact and (stem.notes is not None or song.notes is not None):
            programs |= set(stem.programs or ())
        elif not programs and stem.programs and song.notes is not None:
            programs.add(stem.programs[0])
        programs_of.append(sorted(programs))
        if programs or stem.programs == () or whole or stem.notes is not None:
            continue
        heard += stem.programs or (UNKNOWN_INSTRUMENTS,)
    return notes, programs_of, sorted(set(heard))


def _take_programs(notes: NoteArray, programs: tuple[int, ...] | None) -> None:
    """Give notes whose program is not among ``programs`` the first of them, in place."""
    if not programs:
        return
    strange = ~np.isin(note_programs(notes), programs)
    notes["program"][strange] = programs[0]
    notes["is_drum"][strange] = programs[0] == DRUM_PROGRAM


def _stem_of(program: int, stems: Sequence[StemFile]) -> int:
    """Number of the stem that plays a program of the song's own file of notes."""
    if len(stems) == 1 and not stems[0].exact:
        return 0
    for number, stem in enumerate(stems):
        if stem.programs and program in stem.programs:
            return number
    open_stems = [number for number, stem in enumerate(stems) if stem.programs is None and stem.notes is None]
    if len(open_stems) != 1:
        named = listing([f"{stem.name}: {_said(stem)}" for stem in stems], 12)
        raise ValueError(
            f"{stems[0].audio.parent}: no stem holds the notes of program {program} "
            f"({program_name(program)}); say which one does, by its name or in a manifest ({named})"
        )
    return open_stems[0]


def _said(stem: StemFile) -> str:
    if stem.programs is None:
        return "not said"
    return listing([str(program) for program in stem.programs], 3) if stem.programs else "no notes"


def _moved(notes: NoteArray, shift_ms: float) -> tuple[NoteArray, int]:
    """Notes moved in time, without those that would end before 0 s, and how many those are."""
    if not shift_ms:
        return notes, 0
    moved = notes.copy()
    moved["onset"] += shift_ms / 1000
    moved["offset"] += shift_ms / 1000
    inside = moved["offset"] > 0
    moved = moved[inside]
    moved["onset"] = np.maximum(moved["onset"], 0.0)
    return moved, int((~inside).sum())
