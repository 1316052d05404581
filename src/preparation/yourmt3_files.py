"""The files of the published data of YourMT3: index files, and pickles of notes and stems.

Pickles are read by an unpickler that knows arrays, plain containers and the two note records, and refuses
everything else.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..config.presets import SINGLE_PRESETS
from ..data.strict_json import read_json_object
from .folders import existing_file

INDEX_FOLDER = "yourmt3_indexes"
FOLDER_ENDING = "_yourmt3_16k"
INDEX_ENDING = "_file_list.json"

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


@dataclass(frozen=True)
class IndexedSong:
    """One entry of an index file, with its files where they lie now."""

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


def read_index(file: Path, source: Path, problems: dict[str, str]) -> list[IndexedSong]:
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
            where = _below_source(str(entry[name])) if entry.get(name) else ""
            paths[name] = existing_file(source, where) if where else None
            optional = name == "mix_audio_file" and entry.get("stem_file")
            if where and paths[name] is None and not optional:
                wrong.append(f"{name} {source / where} is missing")
        length = entry.get("n_frames", 0)
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            wrong.append(f"n_frames is {length!r}")
        try:
            programs = tuple(None if p is None else int(p) for p in listed(entry.get("program")))
        except (TypeError, ValueError):
            wrong.append(f"program is {entry['program']!r}")
        if wrong:
            problems[place] = "; ".join(wrong)
            continue
        notes = paths["notes_file"]
        assert notes is not None
        drums = tuple(int(bool(d)) for d in listed(entry.get("is_drum")))
        songs.append(IndexedSong(paths["stem_file"], paths["mix_audio_file"], notes, length, programs, drums))
    return songs


def listed(value: Any) -> list[Any]:
    """A value of the source that may be a list, an array, one value or nothing, as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _below_source(text: str) -> str:
    """A path of an index, which is relative to some other folder, from the folder of its data set on."""
    parts = PurePosixPath(text.replace("\\", "/")).parts
    first = next((number for number, part in enumerate(parts) if part.endswith(FOLDER_ENDING)), 0)
    return str(PurePosixPath(*parts[first:]))
