"""Notes in text: a line or list per note with onset, offset, pitch and perhaps its program."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.strict_json import read_json
from ..notes import clean_notes
from ..notes.note import DRUM_PROGRAM, NOTE_DTYPE, NoteArray

NOTE_LIST_SUFFIXES = (".csv", ".tsv", ".txt", ".json")
_COLUMNS = "onset offset pitch program"
_VELOCITY = 100


def read_note_list(path: Path, program: int | None = None) -> NoteArray:
    """Notes of a text file, cleaned and sorted.

    A line holds onset and offset in seconds, MIDI pitch (rounded) and, if there is a fourth number, the
    program (128: drums), parted by commas, semicolons, tabs or spaces; a first line of words and lines that
    begin with ``#`` are left out. A ``.json`` file holds a list of such lists.

    Args:
        path: of the file.
        program: that of all pitched notes; 128 makes all notes drums. By default the notes' own, or 0.

    Raises:
        ValueError: names the file and the line.
    """
    if path.suffix.lower() == ".json":
        rows = read_json(path)
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise ValueError(f"{path}: must hold a list of notes, each a list of {_COLUMNS}")
        numbered = list(enumerate(rows, 1))
    else:
        numbered = _lines(path)
    return _notes(numbered, program, f"{path}, line" if path.suffix.lower() != ".json" else f"{path}, note")


def notes_from_rows(rows: Sequence[Sequence[float]], program: int | None = None) -> NoteArray:
    """The same of lists of numbers."""
    return _notes(list(enumerate(rows, 1)), program, "note")


def _lines(path: Path) -> list[tuple[int, list[Any]]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not UTF-8 text") from None
    found: list[tuple[int, list[Any]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        mark = next((mark for mark in "\t;," if mark in line), None)
        cells = line.split() if mark is None else next(csv.reader([line], delimiter=mark))
        if not found and number == 1 and not _is_number(cells[0]):
            continue
        found.append((number, [cell.strip() for cell in cells]))
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _notes(numbered: Sequence[tuple[int, Sequence[Any]]], program: int | None, place: str) -> NoteArray:
    rows = []
    for number, row in numbered:
        try:
            onset, offset, exact = (float(value) for value in row[:3])
            own = int(float(row[3])) if len(row) > 3 and row[3] != "" else 0
            if not all(map(math.isfinite, (onset, offset, exact))):
                raise ValueError
        except (TypeError, ValueError):
            raise ValueError(
                f"{place} {number}: {list(row)!r} does not begin with three numbers ({_COLUMNS})"
            ) from None
        pitch = round(exact)
        if onset < 0 or not 0 <= pitch <= 127 or not 0 <= own <= DRUM_PROGRAM:
            raise ValueError(
                f"{place} {number}: {list(row)!r} needs an onset from 0 s on, a pitch of 0 to 127 and a "
                "program of 0 to 128"
            )
        if program is not None and own != DRUM_PROGRAM:
            own = program
        rows.append((onset, offset, pitch, own, _VELOCITY, own == DRUM_PROGRAM))
    return clean_notes(np.array(rows, dtype=NOTE_DTYPE))
