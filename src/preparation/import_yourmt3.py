"""The published data of YourMT3 (``yourmt3_indexes`` beside ``*_yourmt3_16k`` folders) become stores.

One store per data set, one split per index file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from ..audio import read_audio
from ..config.names import unknown_name
from ..data.songs import UNKNOWN_INSTRUMENTS
from ..data.store_format import to_int16
from ..notes.note import DRUM_PROGRAM, NOTE_DTYPE, NoteArray, note_programs
from .building import NoSongError, build_store, first_lines
from .plan import LoadedSong, SongPlan
from .write import NOTES_CUT, NOTES_DROPPED, fit_notes
from .yourmt3_files import FOLDER_ENDING, IndexedSong, find_indexes, listed, read_index, read_pickled_array

OCTAVE_UNKNOWN = frozenset({"hooktheory", "sheetsage"})
"""Data sets whose notes have no reliable octave."""
MIN_SECONDS = 0.01


@dataclass
class ImportReport:
    """What became of the data sets."""

    stores: dict[str, dict[str, int]] = field(default_factory=dict)
    """Songs of each split of each store that was written."""
    there: list[str] = field(default_factory=list)
    """Data sets that were prepared before."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Songs that were left out, and why."""
    counts: Counter[str] = field(default_factory=Counter)
    """Small repairs."""


def import_yourmt3(
    source: Path,
    data_home: Path,
    *,
    only: Sequence[str] = (),
    processes: int | None = None,
    flac: bool = False,
    overwrite: bool = False,
    skip_broken: bool = False,
    progress: bool = True,
) -> ImportReport:
    """Make a store in ``data_home`` of every data set in ``source``.

    Songs with a stem file become songs of several stems, others of one stem "mix". A split that shares
    songs with another (a fold, ``all``) is stored as a view: each song is written once.

    Args:
        source: folder with ``yourmt3_indexes`` and the ``*_yourmt3_16k`` folders, wherever it lies now.
        data_home: where the stores go.
        only: names of data sets; empty for all.
        processes: that read; None is one for each core, at most 16.
        flac: store FLAC.
        overwrite: build stores again that are there; else they are left as they are.
        skip_broken: leave out songs with problems instead of refusing all.
        progress: show a bar and a summary.

    Raises:
        ValueError: lists every problem of index files and every missing file at once, before anything is
            written.
    """
    indexes = find_indexes(Path(source))
    for name in only:
        if name not in indexes:
            raise unknown_name(f"data set in {source}", name, indexes)
    report = ImportReport()
    problems: dict[str, str] = {}
    plans: dict[str, dict[str, list[IndexedSong]]] = {}
    for name in only or sorted(indexes):
        if (data_home / name / "store.json").is_file() and not overwrite:
            report.there.append(name)
            continue
        plans[name] = {
            split: read_index(file, Path(source), problems) for split, file in indexes[name].items()
        }
    if problems and not skip_broken:
        raise ValueError(
            f"{source}: {len(problems)} problem(s); --skip-broken leaves these songs out:"
            + first_lines(problems)
        )
    report.skipped.update(problems)
    console = Console(stderr=True, quiet=not progress)
    for name, splits in plans.items():
        try:
            _write_store(
                name,
                splits,
                data_home / name,
                report,
                console,
                processes=processes,
                flac=flac,
                overwrite=overwrite,
            )
        except NoSongError as error:
            if not skip_broken:
                raise
            report.skipped[name] = str(error)
    if not report.stores and not report.there:
        raise NoSongError(f"{source}: no data set has a song that can be read{first_lines(report.skipped)}")
    for name, songs in report.stores.items():
        text = ", ".join(f"{split} {count}" for split, count in songs.items())
        console.print(f"{name}: {text}", highlight=False)
    for text, count in report.counts.items():
        console.print(f"{text}: {count}", highlight=False)
    for name in report.there:
        console.print(f"{name}: there already; --overwrite builds it again", highlight=False)
    if report.skipped:
        console.print(f"left out: {len(report.skipped)}", highlight=False)
    return report


def _write_store(
    name: str,
    splits: dict[str, list[IndexedSong]],
    path: Path,
    report: ImportReport,
    console: Console,
    *,
    processes: int | None,
    flac: bool,
    overwrite: bool,
) -> None:
    ids: dict[IndexedSong, str] = {}
    taken: set[str] = set()
    where: dict[IndexedSong, list[str]] = {}
    for split, songs in splits.items():
        for song in dict.fromkeys(songs):
            if song not in ids:
                ids[song] = _song_id(song, taken)
                taken.add(ids[song])
            where.setdefault(song, []).append(split)
    plans = [
        SongPlan(ids[song], tuple(own), partial(_load_song, song, name), _files(song))
        for song, own in where.items()
    ]
    built = build_store(
        path,
        name,
        plans,
        order={split: [ids[song] for song in dict.fromkeys(songs)] for split, songs in splits.items()},
        processes=processes,
        flac=flac,
        overwrite=overwrite,
        skip_broken=True,
        facts={"imported_from": "yourmt3"},
        console=console,
    )
    report.skipped.update({f"{name}/{song_id}": reason for song_id, reason in built.broken.items()})
    report.counts.update(built.counts)
    report.stores[name] = built.splits


def _files(song: IndexedSong) -> tuple[Path, ...]:
    sound = song.stems or song.mix
    assert sound is not None
    return song.notes, sound


def _song_id(song: IndexedSong, taken: Container[str]) -> str:
    """Folder name of a song: the path of its notes below the data set, with its sound's where needed."""
    song_id = "__".join(_below(song.notes)).removesuffix(".npy").removesuffix("_notes").strip() or "song"
    if song_id in taken or len(song_id.encode()) > 150:
        sound = song.stems or song.mix
        assert sound is not None
        whole = (_below(song.notes), _below(sound), song.num_samples, song.programs, song.drums)
        digest = hashlib.sha256(repr(whole).encode()).hexdigest()[:8]
        song_id = f"{song_id.encode()[:100].decode('utf-8', 'ignore')}~{sound.stem[:30]}~{digest}"
    return song_id


def _below(path: Path) -> tuple[str, ...]:
    """The parts of a path below the folder of its data set; only its name outside of one."""
    parts = path.parts
    return parts[next((i + 1 for i, p in enumerate(parts) if p.endswith(FOLDER_ENDING)), len(parts) - 1) :]


def _load_song(song: IndexedSong, name: str, sample_rate: int) -> LoadedSong:
    counts: Counter[str] = Counter()
    loaded = read_pickled_array(song.notes)
    programs = listed(loaded.get("program"))
    try:
        notes = _notes(listed(loaded.get("notes")), counts)
        known = {int(p) for p in (*song.programs, *programs) if p is not None}
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{song.notes}: holds a record that is no note: {error}") from None
    stems, stem_programs = _sound(song, notes)
    if not stems.size:
        raise ValueError(f"{song.stems or song.mix}: holds no samples")
    if song.num_samples and stems.shape[1] != song.num_samples:
        counts["songs whose length is not that of the index"] += 1
    notes, dropped, cut = fit_notes(notes, stems.shape[1] / sample_rate)
    counts.update({NOTES_DROPPED: dropped, NOTES_CUT: cut})
    meta = {
        "source": song.notes.name.removesuffix("_notes.npy"),
        "unannotated": [UNKNOWN_INSTRUMENTS] if UNKNOWN_INSTRUMENTS in known else [],
        "octave_unknown": name in OCTAVE_UNKNOWN,
    }
    names = ["mix"] if len(stems) == 1 else [f"stem{i}" for i in range(len(stems))]
    return LoadedSong(stems, stem_programs, names, notes, meta, +counts)


def _notes(records: Sequence[Any], counts: Counter[str]) -> NoteArray:
    rows = []
    for record in records:
        onset, offset, pitch = float(record.onset), float(record.offset), int(record.pitch)
        drum = bool(record.is_drum)
        program = DRUM_PROGRAM if drum else int(record.program)
        if not (np.isfinite(onset) and 0 <= pitch <= 127 and 0 <= program <= DRUM_PROGRAM) or onset < 0:
            counts["notes of impossible time, pitch or program, dropped"] += 1
            continue
        if not offset > onset:
            counts["notes without length, given 10 ms"] += 1
            offset = onset + MIN_SECONDS
        rows.append((onset, offset, pitch, program, int(getattr(record, "velocity", 1)), drum))
    return np.array(rows, dtype=NOTE_DTYPE)


def _sound(song: IndexedSong, notes: NoteArray) -> tuple[npt.NDArray[np.int16], list[list[int]]]:
    """Stems (int16) and the programs of each."""
    noted = sorted(set(note_programs(notes).tolist()))
    if song.stems is None:
        assert song.mix is not None
        return _finite_int16(read_audio(song.mix))[None], [noted]
    loaded = read_pickled_array(song.stems)
    audio = loaded.get("audio_array")
    if not isinstance(audio, np.ndarray) or audio.ndim != 2 or audio.dtype.kind != "f":
        raise ValueError(f"{song.stems}: has no audio_array of real numbers (stems, samples)")
    stems = _finite_int16(audio)
    found = listed(loaded.get("program")) or list(song.programs)
    drums = listed(loaded.get("is_drum")) or list(song.drums) or [0] * len(found)
    if len(found) != len(stems) or len(drums) != len(stems):
        raise ValueError(f"{song.stems}: {len(stems)} stems, {len(found)} programs, {len(drums)} drum flags")
    programs = [
        [] if p is None or int(p) >= UNKNOWN_INSTRUMENTS else [DRUM_PROGRAM if d else int(p)]
        for p, d in zip(found, drums, strict=True)
    ]
    if not set(noted) <= {p for group in programs for p in group}:
        # Notes that no stem claims: which stem they sound in cannot be told, so the stems become one.
        mixed = np.clip(stems.sum(axis=0, dtype=np.int32), -32768, 32767).astype(np.int16)
        return mixed[None], [sorted({*noted, *(p for group in programs for p in group)})]
    return stems, programs


def _finite_int16(audio: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    if not np.isfinite(audio).all():
        raise ValueError("the sound holds NaN or infinite samples")
    return to_int16(audio.astype(np.float32))
