"""A folder of audio and MIDI files of the same names becomes a store; songs may lie in stems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..audio import is_audio_file, looks_like_audio
from ..config.names import counted
from ..data.shares import Shares, split_of
from .folders import each_folder, name_below, readable
from .song_files import MIDI_SUFFIXES, SongFiles, StemFile, read_song
from .stem_names import programs_of_name
from .write import (
    DEFAULTS,
    OwnSong,
    PreparationReport,
    StoreSettings,
    check_name,
    check_program,
    fit_notes,
    write_songs,
)

__all__ = [
    "PreparationReport",
    "Shares",
    "StoreSettings",
    "find_pairs",
    "fit_notes",
    "prepare_folder",
    "split_of",
]


@dataclass(frozen=True)
class Pair:
    """An audio file and its MIDI file."""

    name: str
    """Path below the source folder without suffix, ``/`` between folders, in NFC."""
    audio: Path
    midi: Path


def prepare_folder(
    source: Path,
    out: Path,
    name: str,
    settings: StoreSettings = DEFAULTS,
    *,
    licence: str = "",
    octave_unknown: bool = False,
    stems: bool = False,
    program: int | None = None,
    label_shift_ms: float = 0.0,
) -> PreparationReport:
    """Make the store ``out`` from the audio and MIDI files in ``source`` and all folders below it.

    A pair is an audio file (known by its content, any format libsndfile reads) and a MIDI file of the same
    name in the same folder. Each becomes a song with one stem "mix". With ``stems`` each folder that holds
    audio is a song (:func:`find_stem_songs`). Notes that start after the end of the audio are dropped, notes
    that sound beyond it are cut there. Files that cannot be read are reported and skipped. The same folder,
    seed and shares give the same bytes.

    Args:
        source: folder to read.
        out: folder of the store to write.
        name: name of the data set.
        settings: of splits, reading and writing.
        licence: of the recordings, noted in the store.
        octave_unknown: the absolute octave of the notes is not reliable.
        stems: the audio files of a folder are the stems of one song.
        program: that of all pitched notes, whatever the files say; 128 makes all notes drums.
        label_shift_ms: added to the times of all notes.

    Raises:
        ValueError: when there is no folder, no pair, or nothing in it can be read.
    """
    source = Path(source)
    if not source.is_dir():
        raise ValueError(f"{source}: is no folder")
    check_name(name)
    check_program(program)
    report = PreparationReport()
    if stems:
        songs = find_stem_songs(source, report)
        if not songs:
            raise ValueError(
                f"{source}: no folder of stems with notes found; give each song a folder with its stems "
                "(vocals.wav, drums.wav, ...) and put song.mid into it, or a MIDI file beside each stem"
            )
    else:
        songs = {
            pair.name: SongFiles((StemFile("mix", pair.audio),), pair.midi)
            for pair in find_pairs(source, report)
        }
        if not songs:
            raise ValueError(
                f"{source}: no pair of audio and MIDI found; put each song.mid beside a song.wav (flac, "
                f"mp3, ogg) of the same name ({counted(len(report.unpaired), 'file')} without a partner)"
            )
    settings = settings.for_songs(list(songs), Path(out))
    own = {}
    for key, song in songs.items():
        meta = {"source": key, "licence": licence, "octave_unknown": octave_unknown}
        files = SongFiles(song.stems, song.notes, program, label_shift_ms, meta=meta)
        own[key] = OwnSong(settings.shares.split_of(key), partial(read_song, files), files.files)
    write_songs(source, out, name, own, report, settings)
    return report


def find_pairs(source: Path, report: PreparationReport) -> list[Pair]:
    """All pairs below ``source``, sorted by name; files without a partner go into the report."""
    midis: dict[str, list[Path]] = {}
    others: dict[str, list[Path]] = {}
    for _, paths in each_folder(source, report):
        for path in paths:
            table = midis if path.suffix.lower() in MIDI_SUFFIXES else others
            table.setdefault(name_below(source, path.with_suffix("")), []).append(path)
    pairs = []
    for name, found in sorted(midis.items()):
        audio = [path for path in others.pop(name, []) if _is_sound(path)]
        if not audio:
            missing = f"no {Path(name).name}.wav (flac, mp3, ogg)"
            report.unpaired.update({name_below(source, path): missing for path in found})
            continue
        pairs.append(Pair(name, audio[0], found[0]))
        report.remarks += [
            f"{path}: left out, {name} has another file of its kind already" for path in audio[1:] + found[1:]
        ]
    for name, paths in others.items():
        missing = f"no {Path(name).name}.mid"
        report.unpaired.update(
            {name_below(source, path): missing for path in paths if looks_like_audio(path)}
        )
    return pairs


def find_stem_songs(source: Path, report: PreparationReport) -> dict[str, SongFiles]:
    """The songs below ``source`` that lie in stems, by name; files that are no part of one go to the report.

    Each folder that holds audio is a song, its audio files are the stems, and the name of a stem says what
    it holds (:func:`.stem_names.programs_of_name`). A MIDI file of a stem's name holds the stem's notes. One
    more MIDI file, of any name in the folder or of the folder's name beside it, holds the notes of the other
    stems.
    """
    songs: dict[str, SongFiles] = {}
    used: set[Path] = set()
    midis: list[Path] = []
    for folder, paths in each_folder(source, report):
        own = [path for path in paths if path.suffix.lower() in MIDI_SUFFIXES]
        midis += own
        audio: dict[str, Path] = {}
        for path in paths:
            if path in own or not _is_sound(path):
                continue
            if audio.setdefault(path.stem, path) != path:
                report.remarks.append(f"{path}: left out, the song has another stem {path.stem} already")
        if not audio:
            continue
        notes = {path.stem: path for path in own}
        stems = tuple(
            StemFile(readable(stem), path, programs_of_name(stem), notes.get(stem))
            for stem, path in audio.items()
        )
        shared = [path for stem, path in notes.items() if stem not in audio]
        shared += [folder.with_name(folder.name + suffix) for suffix in MIDI_SUFFIXES if folder != source]
        shared = [path for path in shared if path.is_file()]
        name = name_below(source, folder)
        if len(shared) > 1:
            report.broken[name] = (
                f"{folder}: several MIDI files belong to no stem: {', '.join(path.name for path in shared)}; "
                "leave one, or name them after their stems"
            )
        elif not shared and not any(stem.notes for stem in stems):
            for stem, path in audio.items():
                report.unpaired[name_below(source, path)] = (
                    f"no {readable(stem)}.mid, nor a MIDI file of the song"
                )
        else:
            songs[name] = SongFiles(stems, shared[0] if shared else None)
        used.update(notes.values(), shared)
    missing = "no stem beside it, nor a folder of stems of its name"
    report.unpaired.update({name_below(source, path): missing for path in midis if path not in used})
    return songs


def _is_sound(path: Path) -> bool:
    return is_audio_file(path) or looks_like_audio(path)
