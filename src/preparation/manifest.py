"""A manifest, one row per song in CSV or JSON, becomes a store. All its problems are listed at once."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..config.names import nearest
from ..data.shares import SPLITS
from ..data.songs import UNKNOWN_INSTRUMENTS
from ..data.store_format import shown_problems
from ..data.strict_json import read_json
from .manifest_row import Row
from .note_lists import notes_from_rows
from .song_files import SongFiles, StemFile, read_song
from .write import DEFAULTS, OwnSong, PreparationReport, StoreSettings, check_name, write_songs

COLUMNS = {
    "id": "name of the song; by default that of its sound",
    "split": f"{', '.join(SPLITS)} or a name of its own; by default dealt out by --validation-share",
    "audio": "one file with all the sound",
    "stems": "several files, with their programs",
    "midi": "MIDI file, or none",
    "notes": "list of notes: CSV, text or JSON",
    "program": "program of all pitched notes (100: lead voice, 128: all are drums)",
    "unannotated": "programs that are heard without notes; 129 for instruments unknown",
    "octave_unknown": "whether the octave of the notes is not reliable",
    "label_shift_ms": "added to the times of the notes",
    "licence": "noted in the data set",
    "source": "noted in the data set",
}
"""Columns of a CSV manifest, keys of a row of a JSON one."""
STEM_KEYS = ("audio", "name", "programs", "midi", "notes")
NONE = "none"
"""In ``midi``: the song has no notes, and that is right."""
SHOWN_PROBLEMS = 100


@dataclass(frozen=True)
class ManifestSong:
    """A row of a manifest."""

    split: str
    """Empty when the row does not say."""
    files: SongFiles


def read_manifest(path: Path) -> dict[str, ManifestSong]:
    """The songs of a manifest by their names, in its order.

    Args:
        path: a ``.json`` file with a list of objects (or an object whose ``songs`` is one), or a CSV file
            with a line of column names; commas, semicolons or tabs part the cells. Columns are those of
            ``COLUMNS``. In CSV the stems of a song are parted by ``|``, each with its programs before a
            colon: ``100:voice.wav|32+33:bass.wav|:noise.wav``. In JSON a stem may also be an object with
            the keys ``STEM_KEYS``; its programs are then a list.

    Raises:
        ValueError: lists every problem of the file at once, each with its row: columns that are not known,
            values that are none, files that are missing, songs that occur twice.
    """
    path = Path(path)
    columns, rows = _json_rows(path) if path.suffix.lower() == ".json" else _csv_rows(path)
    problems = [text for key, place in columns.items() if (text := _unknown(key, place, COLUMNS))]
    songs: dict[str, ManifestSong] = {}
    seen: dict[str, str] = {}
    for place, values in rows:
        row = Row(place, values, path.parent, problems)
        before = len(problems)
        files = _song(row)
        name = row.text("id") or _default_name(row, files)
        split = row.text("split")
        if split and not re.fullmatch(r"[\w.-]+", split):
            row.wrong(f"split {split!r}: use letters, digits, '_', '-', '.'")
        if name and seen.setdefault(name, place) != place:
            row.wrong(f"id {name!r} stands in {seen[name]} already; give each song an id of its own")
        if len(problems) == before and files is not None:
            meta = {**files.meta, "source": files.meta["source"] or name}
            songs[name] = ManifestSong(split, replace(files, meta=meta))
    if not rows and not problems:
        problems.append("holds no song")
    if problems:
        shown = "\n  ".join(shown_problems(problems, SHOWN_PROBLEMS))
        raise ValueError(f"{path}: {len(problems)} problem(s):\n  {shown}")
    return songs


def prepare_manifest(
    manifest: Path,
    out: Path,
    name: str,
    settings: StoreSettings = DEFAULTS,
) -> PreparationReport:
    """Make the store ``out`` from the songs of a manifest (:func:`read_manifest`).

    Songs whose files cannot be read are named and left out, as in :func:`.generic.prepare_folder`, whose
    arguments these are.

    Raises:
        ValueError: for every problem of the manifest at once, or when no song can be read.
    """
    check_name(name)
    songs = read_manifest(Path(manifest))
    dealt_out = not any(song.split for song in songs.values())
    if dealt_out:
        settings = settings.for_songs(list(songs), Path(out))
    shares = settings.shares
    own = {
        key: OwnSong(song.split or shares.split_of(key), partial(read_song, song.files), song.files.files)
        for key, song in songs.items()
    }
    report = PreparationReport()
    write_songs(manifest, out, name, own, report, settings, dealt_out=dealt_out)
    return report


def _csv_rows(path: Path) -> tuple[dict[str, str], list[tuple[str, dict[str, Any]]]]:
    """Column names with their place, and the rows with theirs."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not UTF-8 text; save it as such (CSV UTF-8)") from None
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    mark = max(",;\t", key=text.lstrip().splitlines()[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    try:
        table = [(f"line {reader.line_num}", cells) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise ValueError(
            f"{path}: line {reader.line_num} or one above it has a quote without its partner ({error})"
        ) from None
    header = [cell.strip().lower() for cell in table[0][1]]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: line 1 names {', '.join(twice)} twice")
    rows = []
    for place, cells in table[1:]:
        if len(cells) > len(header) and any(cells[len(header) :]):
            raise ValueError(
                f"{path}: {place} has {len(cells)} cells, the first line names {len(header)} columns; put "
                f"cells that hold {mark!r} into quotes"
            )
        rows.append((place, dict(zip(header, (cell.strip() for cell in cells), strict=False))))
    return dict.fromkeys(header, "line 1"), rows


def _json_rows(path: Path) -> tuple[dict[str, str], list[tuple[str, dict[str, Any]]]]:
    loaded = read_json(path)
    if isinstance(loaded, dict) and isinstance(loaded.get("songs"), list):
        loaded = loaded["songs"]
    if not isinstance(loaded, list):
        raise ValueError(f"{path}: must hold a list of songs, or an object whose 'songs' is one")
    columns: dict[str, str] = {}
    rows = []
    for number, row in enumerate(loaded, 1):
        if not isinstance(row, dict):
            raise ValueError(f"{path}: song {number} is a {type(row).__name__}, not an object")
        for key in row:
            columns.setdefault(key, f"song {number}")
        rows.append((f"song {number}", row))
    return columns, rows


def _unknown(key: str, place: str, known: Mapping[str, str] | Sequence[str]) -> str:
    if key in known:
        return ""
    close = nearest(key, known, 2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
    return f"{place}: unknown column {key!r}; {hint}"


def _song(row: Row) -> SongFiles | None:
    """The files of a row; what is wrong is noted there."""
    stems = _stems(row)
    notes, empty = _song_notes(row)
    own = any(stem.notes is not None for stem in stems)
    if notes is None and not empty and not own and not {"midi", "notes"} & set(row.values):
        row.wrong(f"has neither midi nor notes; a song without notes says midi {NONE}")
    program = row.programs("program", row.values["program"]) if "program" in row.values else ()
    if len(program) > 1:
        row.wrong("program is one number")
    unannotated: tuple[int, ...] | None = None
    if "unannotated" in row.values:
        unannotated = row.programs("unannotated", row.values["unannotated"], UNKNOWN_INSTRUMENTS)
    elif empty:
        unannotated = ()
    meta = {
        "source": row.text("source"),
        "licence": row.text("licence"),
        "octave_unknown": row.truth("octave_unknown"),
    }
    if empty:
        meta["without_notes"] = True
    shift = row.number("label_shift_ms")
    if not stems:
        return None
    return SongFiles(stems, notes, program[0] if program else None, shift, unannotated, meta)


def _song_notes(row: Row) -> tuple[Path | tuple[tuple[float, ...], ...] | None, bool]:
    """The song's own notes, and whether it has none on purpose."""
    midi, notes = row.values.get("midi"), row.values.get("notes")
    if midi is not None and notes is not None:
        row.wrong("has both midi and notes; give one")
    if isinstance(midi, str) and midi.lower() == NONE:
        return None, True
    if midi is not None:
        return row.file("midi", midi), False
    if isinstance(notes, list):
        listed = tuple(tuple(note) if isinstance(note, list) else (note,) for note in notes)
        try:
            notes_from_rows(listed)
        except ValueError as error:
            row.wrong(f"notes: {error}")
        return listed, not notes
    return (row.file("notes", notes) if notes is not None else None), False


def _stems(row: Row) -> tuple[StemFile, ...]:
    audio, stems = row.values.get("audio"), row.values.get("stems")
    if (audio is None) == (stems is None):
        row.wrong("needs either audio or stems")
        return ()
    if audio is not None:
        path = row.file("audio", audio)
        return (StemFile("mix", path),) if path is not None else ()
    listed = [item for item in stems.split("|") if item.strip()] if isinstance(stems, str) else stems
    if not isinstance(listed, list) or not listed:
        row.wrong(f"stems is {stems!r}, not a list of files")
        return ()
    found = [_stem(row, item) for item in listed]
    return tuple(stem for stem in found if stem is not None)


def _stem(row: Row, item: Any) -> StemFile | None:
    if isinstance(item, str):
        head, colon, rest = item.partition(":")
        if colon and re.fullmatch(r"[\d+\s]*", head):
            item = {"audio": rest, "programs": [part for part in re.split(r"[+\s]+", head) if part]}
        else:
            item = {"audio": item}
    if not isinstance(item, dict) or "audio" not in item:
        row.wrong(f"a stem is {item!r}; it needs a file, or an object with 'audio'")
        return None
    for key in item:
        if text := _unknown(key, row.place, STEM_KEYS):
            row.wrong(f"of a stem: {text.partition(': ')[2]}")
    path = row.file("stem", item["audio"])
    programs = row.programs("programs of a stem", item["programs"]) if "programs" in item else None
    notes = None
    for key in ("midi", "notes"):
        if key in item:
            notes = row.file(f"{key} of a stem", item[key])
    if path is None:
        return None
    return StemFile(str(item.get("name") or path.stem), path, programs, notes, exact=programs is not None)


def _default_name(row: Row, files: SongFiles | None) -> str:
    """The path of the sound below the manifest, without its ending; of stems, that of their folder."""
    if files is None or not files.stems:
        return ""
    path = files.stems[0].audio
    path = path.with_suffix("") if "audio" in row.values else path.parent
    try:
        return path.relative_to(row.folder).as_posix()
    except ValueError:
        return path.name
