"""The published data of YourMT3 (``yourmt3_indexes`` beside ``*_yourmt3_16k`` folders) become stores.

One store per data set, one split per index file. Note and stem files are pickles; they are read by an
unpickler that knows arrays, plain containers and the two note records, and refuses everything else.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..audio import read_audio
from ..config.names import unknown_name
from ..config.presets import SINGLE_PRESETS
from ..data.store import StoreWriter
from ..data.strict_json import read_json_object
from ..notes.note import DRUM_PROGRAM, NOTE_DTYPE, NoteArray
from .generic import fit_notes

INDEX_FOLDER = "yourmt3_indexes"
FOLDER_ENDING = "_yourmt3_16k"
INDEX_ENDING = "_file_list.json"
SHARED_SPLIT = "songs"
"""Split that holds the songs that several splits of the source share."""
UNANNOTATED = 129
OCTAVE_UNKNOWN = frozenset({"hooktheory", "sheetsage"})
"""Data sets whose notes have no reliable octave."""
MIN_SECONDS = 0.01

_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "object"),
    ("copyreg", "_reconstructor"),
    ("_codecs", "encode"),
    *(
        (f"numpy.{core}.multiarray", name)
        for core in ("core", "_core")
        for name in ("_reconstruct", "scalar")
    ),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
}


class Record:
    """Stands for a note or note event of the source; its fields are plain attributes."""


class _RecordUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in ("Note", "NoteEvent"):
            return Record
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which has no place in a note file")


def read_pickled_array(path: Path) -> Any:
    """The object in a ``.npy`` file of one pickled object.

    Raises:
        ValueError: names the file when it cannot be read or asks for anything but data.
    """
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            _, _, dtype = read(file)
            if not dtype.hasobject:
                raise ValueError("holds plain numbers, not a record")
            loaded = _RecordUnpickler(file).load()
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise ValueError(f"{path}: cannot be read as a note or stem file: {error}") from None
    if isinstance(loaded, np.ndarray) and loaded.dtype.hasobject and loaded.ndim == 0:
        loaded = loaded.item()
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: holds a {type(loaded).__name__}, not a record of named values")
    return loaded


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


@dataclass(frozen=True)
class _Song:
    stems: Path | None
    mix: Path | None
    notes: Path
    num_samples: int
    programs: tuple[int | None, ...]
    drums: tuple[int, ...]


def find_indexes(source: Path) -> dict[str, dict[str, Path]]:
    """Index files below ``source``: data set, split, file.

    Raises:
        ValueError: when there are none.
    """
    folder = source / INDEX_FOLDER if (source / INDEX_FOLDER).is_dir() else source
    files = sorted(folder.glob(f"*{INDEX_ENDING}"))
    if not files:
        raise ValueError(
            f"{source}: no {INDEX_FOLDER}/*{INDEX_ENDING} found; give the folder that holds "
            f"{INDEX_FOLDER} and the folders *{FOLDER_ENDING}"
        )
    known = {preset.store for preset in SINGLE_PRESETS.values()}
    known |= {path.name.removesuffix(FOLDER_ENDING) for path in source.glob(f"*{FOLDER_ENDING}")}
    found: dict[str, dict[str, Path]] = {}
    for file in files:
        whole = file.name.removesuffix(INDEX_ENDING)
        names = [name for name in known if whole.startswith(f"{name}_")]
        name = max(names, key=len) if names else whole.split("_", 1)[0]
        found.setdefault(name, {})[whole[len(name) + 1 :] or "all"] = file
    return found


def import_yourmt3(
    source: Path,
    data_home: Path,
    *,
    only: Sequence[str] = (),
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
    plans: dict[str, dict[str, list[_Song]]] = {}
    for name in only or sorted(indexes):
        if (data_home / name / "store.json").is_file() and not overwrite:
            report.there.append(name)
            continue
        plans[name] = {
            split: _read_index(file, Path(source), problems) for split, file in indexes[name].items()
        }
    if problems and not skip_broken:
        lines = [f"  {place}: {problem}" for place, problem in problems.items()]
        more = [f"  and {len(lines) - 50} more"] if len(lines) > 50 else []
        raise ValueError(
            f"{source}: {len(lines)} problem(s); --skip-broken leaves these songs out:\n"
            + "\n".join([*lines[:50], *more])
        )
    report.skipped.update(problems)
    console = Console(stderr=True, quiet=not progress)
    for name, splits in plans.items():
        _write_store(name, splits, data_home / name, report, console, flac=flac, overwrite=overwrite)
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


def _read_index(file: Path, source: Path, problems: dict[str, str]) -> list[_Song]:
    """Songs of an index file; what is wrong goes to ``problems``."""
    try:
        entries = read_json_object(file)
    except ValueError as error:
        problems[str(file)] = str(error).removeprefix(f"{file}: ")
        return []
    if not entries:
        problems[str(file)] = "lists no song"
    songs = []
    for key, entry in entries.items():
        place = f"{file.name}, entry {key}"
        if not isinstance(entry, dict) or not entry.get("notes_file"):
            problems[place] = "has no notes_file"
            continue
        paths: dict[str, Path | None] = {}
        wrong = [] if entry.get("stem_file") or entry.get("mix_audio_file") else ["no sound file"]
        for name in ("stem_file", "mix_audio_file", "notes_file"):
            paths[name] = _place(str(entry[name]), source) if entry.get(name) else None
            path = paths[name]
            optional = name == "mix_audio_file" and entry.get("stem_file")
            if path is not None and not path.is_file() and not optional:
                wrong.append(f"{name} {path} is missing")
        length = entry.get("n_frames", 0)
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            wrong.append(f"n_frames is {length!r}")
        if wrong:
            problems[place] = "; ".join(wrong)
            continue
        notes = paths["notes_file"]
        assert notes is not None
        programs = tuple(None if p is None else int(p) for p in _listed(entry.get("program")))
        drums = tuple(int(bool(d)) for d in _listed(entry.get("is_drum")))
        songs.append(_Song(paths["stem_file"], paths["mix_audio_file"], notes, length, programs, drums))
    return songs


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _place(text: str, source: Path) -> Path:
    """A path of an index, which is relative to some other folder, inside ``source``."""
    parts = PurePosixPath(text.replace("\\", "/")).parts
    for number, part in enumerate(parts):
        if part.endswith(FOLDER_ENDING):
            return source.joinpath(*parts[number:])
    return source.joinpath(*parts)


def _write_store(
    name: str,
    splits: dict[str, list[_Song]],
    path: Path,
    report: ImportReport,
    console: Console,
    *,
    flac: bool,
    overwrite: bool,
) -> None:
    uses = Counter(song for songs in splits.values() for song in set(songs))
    views = {split for split, songs in splits.items() if any(uses[song] > 1 for song in songs)}
    ids: dict[_Song, str] = {}
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    facts = {"imported_from": "yourmt3"}
    with (
        StoreWriter(path, name, overwrite=overwrite, flac=flac, facts=facts) as writer,
        Progress(*columns, console=console, disable=console.quiet) as bar,
    ):
        task = bar.add_task("", total=len(uses))
        taken: set[str] = set()
        for split, songs in splits.items():
            own = SHARED_SPLIT if split in views else split
            writer.add_split(own)
            for song in dict.fromkeys(songs):
                if song in ids:
                    continue
                bar.advance(task)
                song_id = _song_id(song, taken)
                try:
                    _add_song(writer, own, song_id, song, name, report)
                except (ValueError, OSError) as error:
                    report.skipped[song_id] = str(error)
                    continue
                taken.add(song_id)
                ids[song] = song_id
        for split in sorted(views):
            writer.add_view(split, [ids[song] for song in dict.fromkeys(splits[split]) if song in ids])
        if not ids:
            lines = "\n".join(f"  {key}: {value}" for key, value in list(report.skipped.items())[:20])
            raise ValueError(f"{name}: no song can be read:\n{lines}")
    report.stores[name] = {
        split: sum(song in ids for song in dict.fromkeys(songs)) for split, songs in splits.items()
    }


def _song_id(song: _Song, taken: Iterable[str]) -> str:
    """Folder name of a song: the path of its notes below the data set, with its sound's where needed."""
    parts = song.notes.parts
    below = next((i + 1 for i, part in enumerate(parts) if part.endswith(FOLDER_ENDING)), len(parts) - 1)
    song_id = "__".join(parts[below:]).removesuffix(".npy").removesuffix("_notes").strip() or "song"
    if song_id in taken or len(song_id.encode()) > 150:
        sound = song.stems or song.mix
        assert sound is not None
        digest = hashlib.sha256(f"{song.notes.name}\n{sound.name}".encode()).hexdigest()[:8]
        song_id = f"{song_id.encode()[:100].decode('utf-8', 'ignore')}~{sound.stem[:30]}~{digest}"
    return song_id.replace("/", "_")


def _add_song(
    writer: StoreWriter, split: str, song_id: str, song: _Song, name: str, report: ImportReport
) -> None:
    loaded = read_pickled_array(song.notes)
    listed = [p for p in _listed(loaded.get("program")) if p is not None]
    notes = _notes(_listed(loaded.get("notes")), report)
    stems, programs = _sound(song, notes)
    if song.num_samples and stems.shape[1] != song.num_samples:
        report.counts["songs whose length is not that of the index"] += 1
    notes, dropped, cut = fit_notes(notes, stems.shape[1] / writer.sample_rate)
    report.counts["notes after the end of the sound, dropped"] += dropped
    report.counts["notes cut at the end of the sound"] += cut
    unannotated = UNANNOTATED in {*song.programs, *(int(program) for program in listed)}
    meta = {
        "source": song.notes.name.removesuffix("_notes.npy"),
        "unannotated": [UNANNOTATED] if unannotated else [],
        "octave_unknown": name in OCTAVE_UNKNOWN,
    }
    names = ["mix"] if len(programs) == 1 else [f"stem{i}" for i in range(len(programs))]
    writer.add_song(split, song_id, stems, programs, names, notes, meta)


def _notes(records: Sequence[Any], report: ImportReport) -> NoteArray:
    rows = []
    for record in records:
        onset, offset, pitch = float(record.onset), float(record.offset), int(record.pitch)
        drum = bool(record.is_drum)
        program = DRUM_PROGRAM if drum else int(record.program)
        if not (np.isfinite(onset) and 0 <= pitch <= 127 and 0 <= program <= DRUM_PROGRAM) or onset < 0:
            report.counts["notes of impossible time, pitch or program, dropped"] += 1
            continue
        if not offset > onset:
            report.counts["notes without length, given 10 ms"] += 1
            offset = onset + MIN_SECONDS
        rows.append((onset, offset, pitch, program, int(getattr(record, "velocity", 1)), drum))
    return np.array(rows, dtype=NOTE_DTYPE)


def _sound(song: _Song, notes: NoteArray) -> tuple[npt.NDArray[np.int16], list[list[int]]]:
    """Stems (int16) and the programs of each."""
    noted = sorted({int(p) for p in np.where(notes["is_drum"], DRUM_PROGRAM, notes["program"])})
    if song.stems is None:
        assert song.mix is not None
        return _to_int16(read_audio(song.mix))[None], [noted]
    loaded = read_pickled_array(song.stems)
    if not isinstance(loaded.get("audio_array"), np.ndarray) or loaded["audio_array"].ndim != 2:
        raise ValueError(f"{song.stems}: has no audio_array (stems, samples)")
    stems = _to_int16(loaded["audio_array"])
    listed = _listed(loaded.get("program")) or list(song.programs)
    drums = _listed(loaded.get("is_drum")) or list(song.drums) or [0] * len(listed)
    if len(listed) != len(stems) or len(drums) != len(stems):
        raise ValueError(f"{song.stems}: {len(stems)} stems, {len(listed)} programs, {len(drums)} drum flags")
    programs = [
        [] if p is None or int(p) >= UNANNOTATED else [DRUM_PROGRAM if d else int(p)]
        for p, d in zip(listed, drums, strict=True)
    ]
    if not set(noted) <= {p for group in programs for p in group}:
        # Notes that no stem claims: which stem they sound in cannot be told, so the stems become one.
        mixed = np.clip(stems.sum(axis=0, dtype=np.int32), -32768, 32767).astype(np.int16)
        return mixed[None], [sorted({*noted, *(p for group in programs for p in group)})]
    return stems, programs


def _to_int16(audio: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    if not np.isfinite(audio).all():
        raise ValueError("the sound holds NaN or infinite samples")
    scaled = np.rint(audio.astype(np.float32) * np.float32(32768.0))
    samples: npt.NDArray[np.int16] = np.clip(scaled, -32768, 32767).astype(np.int16)
    return samples
