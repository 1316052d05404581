"""Note files of the published kinds become notes: MIDI, and tables of times and pitches."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ...data.augment.pitch import PitchShift, shift_notes
from ...notes import clean_notes, read_midi
from ...notes.note import DRUM_PROGRAM, NOTE_DTYPE, NoteArray, notes_to_array

HIT_SECONDS = 0.01
"""Length that drum notes are given."""


@dataclass(frozen=True)
class MidiLabels:
    """Labels of a MIDI file, pedal included; calling it reads them."""

    path: Path
    program: int | None = None
    """Of all pitched notes; None: as the file says."""
    drums: bool | None = None
    """Whether all notes are drums or none is; None: those of channel 10."""
    transpose: int = 0
    """Semitones to move the pitched notes by."""

    def __call__(self) -> NoteArray:
        """The notes; raises ``ValueError`` that names the file."""
        notes = notes_to_array(read_midi(self.path, program=self.program, drums=self.drums))
        return transposed(notes, self.transpose)


def transposed(notes: NoteArray, semitones: int) -> NoteArray:
    """Pitched notes moved by semitones; those that leave 0 to 127 are dropped."""
    return shift_notes(notes, PitchShift(semitones, keeps_time=True))


def joined_labels(parts: Sequence[Callable[[], NoteArray]]) -> Callable[[], NoteArray]:
    """Labels of several sources together."""
    return partial(_join, tuple(parts))


def _join(parts: tuple[Callable[[], NoteArray], ...]) -> NoteArray:
    return np.concatenate([np.zeros(0, NOTE_DTYPE), *(part() for part in parts)])


def pitched_notes(rows: Iterable[tuple[float, float, float]], program: int) -> NoteArray:
    """Notes of (onset s, offset s, MIDI pitch; rounded), cleaned: lengths repaired, overlaps ended.

    Raises:
        ValueError: for a negative time, a pitch outside 0 to 127 or a number that is not finite.
    """
    notes = []
    for onset, offset, pitch in rows:
        if not (np.isfinite([onset, offset, pitch]).all() and onset >= 0 and 0 <= round(pitch) <= 127):
            raise ValueError(f"a note from {onset} to {offset} s of pitch {pitch} cannot be")
        notes.append((onset, offset, round(pitch), program, 1, False))
    return clean_notes(np.array(notes, dtype=NOTE_DTYPE))


def drum_notes(hits: Iterable[tuple[float, int]]) -> NoteArray:
    """Drum notes of (time s, drum pitch)."""
    rows = [(time, time + HIT_SECONDS, pitch, DRUM_PROGRAM, 1, True) for time, pitch in hits]
    return clean_notes(np.array(rows, dtype=NOTE_DTYPE))


def hertz_to_midi(frequency: float) -> float:
    """MIDI pitch, with fraction, of a frequency above 0."""
    if not frequency > 0:
        raise ValueError(f"a frequency of {frequency} Hz has no pitch")
    return float(69 + 12 * np.log2(frequency / 440))


def number_rows(
    path: Path, columns: int, *, delimiter: str | None = None, header: str = ""
) -> list[list[float]]:
    """Rows of a text file of numbers, at least ``columns`` in each; empty lines are passed over.

    Args:
        path: the file.
        columns: numbers needed; further columns are left out.
        delimiter: between columns; None is any white space.
        header: first word of a line of names above the numbers; empty without such a line.

    Raises:
        ValueError: names file and line.
    """
    rows = []
    lines = read_text(path).splitlines()
    if header and (not lines or not lines[0].strip().lower().startswith(header.lower())):
        raise ValueError(f"{path}: does not begin with a line of names ({header}, ...)")
    for number, line in enumerate(lines, 1):
        if not line.strip() or (header and number == 1):
            continue
        try:
            row = [float(cell) for cell in line.split(delimiter)[:columns]]
        except ValueError:
            row = []
        if len(row) < columns:
            raise ValueError(f"{path}, line {number}: expected {columns} numbers, not {line.strip()[:80]!r}")
        rows.append(row)
    return rows


def table_rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file with a line of names.

    Raises:
        ValueError: names the file and the columns of ``needed`` that it lacks.
    """
    try:
        rows = list(csv.DictReader(read_text(path).splitlines()))
    except csv.Error as error:
        raise ValueError(f"{path}: is no table of comma-separated values ({error})") from None
    missing = [name for name in needed if not rows or rows[0].get(name) is None]
    if missing:
        raise ValueError(f"{path}: has no column {', '.join(missing)}")
    return rows


def read_text(path: Path) -> str:
    """The text of a file, whatever its line ends; bytes that are no UTF-8 are read as Latin-1."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@dataclass(frozen=True)
class PitchedTable:
    """Labels of a text table of onset, offset and pitch; calling it reads them."""

    path: Path
    program: int
    """Of all its notes."""
    delimiter: str | None = None
    """Between columns; None is white space."""
    header: str = ""
    """First word of a line of names above the numbers; empty without such a line."""
    lengths: bool = False
    """The second time is a duration, not an offset."""
    hertz: bool = False
    """Pitches are frequencies."""
    order: tuple[int, int, int] = (0, 1, 2)
    """Columns of onset, offset (or duration) and pitch."""

    def __call__(self) -> NoteArray:
        """The notes; raises ``ValueError`` that names the file."""
        rows = number_rows(self.path, max(self.order) + 1, delimiter=self.delimiter, header=self.header)
        with naming(self.path):
            notes = []
            for row in rows:
                onset, end, pitch = (row[column] for column in self.order)
                offset = onset + end if self.lengths else end
                notes.append((onset, offset, hertz_to_midi(pitch) if self.hertz else pitch))
            return pitched_notes(notes, self.program)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A ``ValueError`` inside names the file that was read."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
