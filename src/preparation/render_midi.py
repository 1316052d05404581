"""MIDI files alone become a store: each instrument is played on this machine, as a stem of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..config.vocabularies import program_name
from ..data.store import StemArray
from ..data.store_format import to_int16
from ..notes.note import NoteArray
from .folders import each_folder, name_below
from .plan import LoadedSong
from .song_files import MIDI_SUFFIXES, read_notes
from .write import (
    DEFAULTS,
    SAMPLE_RATE,
    OwnSong,
    PreparationReport,
    StoreSettings,
    check_name,
    check_program,
    write_songs,
)

Play = Callable[[NoteArray, int], tuple[list[npt.NDArray[np.float64]], list[int], NoteArray]]
"""Plays the notes of a song: (notes, seed) to the sound (samples,) of each program at 16 kHz, the programs,
and the notes as they are heard."""

MAX_SECONDS = 1800.0
"""Longer songs are refused: a damaged file may claim days."""
_PEAK = 0.95


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    program: int | None
    seed: int
    licence: str


def prepare_midi(
    source: Path,
    out: Path,
    name: str,
    play: Play,
    settings: StoreSettings = DEFAULTS,
    *,
    program: int | None = None,
    licence: str = "",
) -> PreparationReport:
    """Make the store ``out`` from the MIDI files in ``source`` and all folders below it.

    Each song has a stem for each of its programs, and one for its drums. The same files, seed and shares give
    the same bytes. Files that cannot be read, and those without notes, are named and left out.

    Args:
        source: folder to read.
        out: folder of the store to write.
        name: name of the data set.
        play: who plays, such as ``amt.quickstart.instruments.play``; a function of a module.
        settings: of splits, playing and writing. Another seed of the shares is another split and other
            singers.
        program: that of all pitched notes, whatever the files say; 128 makes all notes drums.
        licence: of the songs, noted in the store.

    Raises:
        ValueError: when there is no folder, no MIDI file, or none that can be read, or for a sample rate at
            which nobody plays.
    """
    source = Path(source)
    if not source.is_dir():
        raise ValueError(f"{source}: is no folder")
    check_name(name)
    check_program(program)
    if settings.sample_rate != SAMPLE_RATE:
        raise ValueError(f"instruments play at {SAMPLE_RATE} Hz, not at {settings.sample_rate} Hz")
    report = PreparationReport()
    found: dict[str, Path] = {}
    for _, paths in each_folder(source, report):
        for path in paths:
            key = name_below(source, path.with_suffix(""))
            if path.suffix.lower() in MIDI_SUFFIXES and found.setdefault(key, path) != path:
                report.remarks.append(f"{path}: left out, {key} has another file already")
    if not found:
        raise ValueError(f"{source}: no MIDI file found (.mid, .midi)")
    settings = settings.for_songs(list(found), Path(out))
    own = {}
    for key, path in found.items():
        load = partial(_play_file, play, _File(path, key, program, settings.shares.seed or 0, licence))
        own[key] = OwnSong(settings.shares.split_of(key), load, (path,))
    write_songs(source, out, name, own, report, settings)
    return report


def _play_file(play: Play, file: _File, sample_rate: int) -> LoadedSong:
    assert sample_rate == SAMPLE_RATE
    notes = read_notes(file.path, file.program)
    if not len(notes):
        raise ValueError(f"{file.path}: holds no notes, so there is nothing to play")
    if notes["offset"].max() > MAX_SECONDS:
        raise ValueError(
            f"{file.path}: lasts {notes['offset'].max():.0f} s, more than {MAX_SECONDS:.0f}; cut it to pieces"
        )
    digest = hashlib.sha256(f"{file.seed}/{file.name}".encode()).digest()
    sounds, programs, played = play(notes, int.from_bytes(digest[:6], "big"))
    if not len(played):
        raise ValueError(f"{file.path}: none of its {len(notes)} notes can be played")
    meta = {"source": file.name, "licence": file.licence, "synthetic": True}
    names = [program_name(program) for program in programs]
    return LoadedSong(_levelled(sounds), [[program] for program in programs], names, played, meta)


def _levelled(sounds: list[npt.NDArray[np.float64]]) -> StemArray:
    """Stems as int16, all scaled down together where their sum would clip."""
    stacked = np.stack(sounds)
    peak = max(float(np.abs(stacked.sum(axis=0)).max()), float(np.abs(stacked).max()))
    return to_int16((stacked * min(1.0, _PEAK / max(peak, 1e-9))).astype(np.float32))
