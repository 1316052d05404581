"""Whether the files of the songs of a store are there, and as long as its index says.

A store that was copied in part, or whose files belong to another index, is refused at the start of a run and
not in hour three inside a loader process. Nothing is read: three calls of ``stat`` for each song.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..notes.note import NOTE_DTYPE
from .store import SongStore
from .store_audio import ARRAY, ARRAY_FILE, data_offset, flac_file
from .store_format import shown_problems


def file_problems(parts: Iterable[tuple[SongStore, str]]) -> list[str]:
    """What is wrong with the files of the songs of some splits of stores: a text for each such store."""
    splits: dict[Path, tuple[SongStore, list[str]]] = {}
    for store, split in parts:
        splits.setdefault(store.path, (store, []))[1].append(split)
    texts = []
    for path, (store, names) in splits.items():
        problems = _problems(store, names)
        if problems:
            shown = "\n  ".join(shown_problems(problems))
            texts.append(
                f"{path}: {len(problems)} file(s) of songs are not as the index says; prepare the store, or "
                f"copy it, again:\n  {shown}"
            )
    return texts


def _problems(store: SongStore, splits: Iterable[str]) -> list[str]:
    root = store.path / "songs"
    stems_head = _head(np.zeros((1, 1), dtype=np.int16))
    notes_head = _head(np.zeros(0, dtype=NOTE_DTYPE))
    problems: list[str] = []
    seen: set[str] = set()
    for split in splits:
        rows = store.index(split)
        columns = (rows[name].tolist() for name in ("song_id", "num_samples", "num_stems", "num_notes"))
        for song_id, num_samples, num_stems, num_notes in zip(*columns, strict=True):
            if song_id in seen:
                continue
            seen.add(song_id)
            folder = f"{root}/{song_id}"
            wrong = [
                _problem(f"{folder}/song.json"),
                _problem(f"{folder}/notes.npy", notes_head, num_notes * NOTE_DTYPE.itemsize),
            ]
            if store.coding == ARRAY:
                wrong.append(_problem(f"{folder}/{ARRAY_FILE}", stems_head, 2 * num_stems * num_samples))
            elif num_samples:  # an empty FLAC file has no bytes at all
                wrong += [_problem(str(flac_file(Path(folder), stem))) for stem in range(num_stems)]
            problems += filter(None, wrong)
    return problems


def _head(array: npt.NDArray[Any]) -> int:
    """Bytes before the values in the file of such an array, whatever its length."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.tell() - array.nbytes


def _problem(path: str, head: int = 0, values: int | None = None) -> str:
    """What is wrong with a file; of an array ``values`` is the bytes of its values, ``head`` those before."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if values is None:
        return "" if size else f"{path}: is empty"
    if size == head + values:
        return ""
    with open(path, "rb") as file:  # another version of NumPy may have written another head
        head = data_offset(file.fileno())
    return "" if size == head + values else f"{path}: has {size} bytes, not {max(head, 0) + values}"
