"""What a finished song is downloaded as: the notes a client wants, as files."""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from ..audio import AudioError, audio_info, iterate_blocks
from ..inference.files import atomic_path
from ..inference.outputs import write_outputs
from ..inference.predict import reason_of
from ..inference.stitching import lasts
from ..notes.note import DRUM_PROGRAM, Note
from .jobs import Job, program_of
from .refusal import Refusal

SONG = "song"
"""The sound that was sent, as a WAV file that every browser plays."""
_KEPT = 8
"""Files that are kept of a job; they can be made again."""
_SONG_RATE = 44100


@dataclass(frozen=True)
class Download:
    """A file that is made of a song."""

    ending: str
    media_type: str


DOWNLOADS: Mapping[str, Download] = {
    "midi": Download("mid", "audio/midi"),
    "json": Download("json", "application/json"),
    "csv": Download("csv", "text/csv; charset=utf-8"),
    "audio": Download("wav", "audio/wav"),
    SONG: Download("wav", "audio/wav"),
}
"""By the last word of the address. All but ``song`` are formats of :mod:`..inference.outputs`."""


@dataclass(frozen=True)
class NoteFilter:
    """The notes a client wants."""

    programs: frozenset[int] | None = None
    """Of these, 128 for drums; None is all."""
    min_note_ms: float = 0.0
    """Pitched notes that are at least so long."""

    def keep(self, notes: Sequence[Note]) -> list[Note]:
        """Those of ``notes`` that are wanted, in their order."""
        shortest = self.min_note_ms / 1000
        return [
            note
            for note in notes
            if (self.programs is None or program_of(note) in self.programs) and lasts(note, shortest)
        ]

    @property
    def key(self) -> str:
        """Tells filters apart in the name of a file."""
        programs = "all" if self.programs is None else "-".join(map(str, sorted(self.programs)))
        return f"{programs}_{self.min_note_ms!r}"


def read_filter(query: Mapping[str, str]) -> NoteFilter:
    """The filter of an address: ``programs=0,33,128`` (empty: none) and ``min_note_ms=50``.

    Raises :class:`~.refusal.Refusal` for values that mean nothing.
    """
    text = query.get("programs")
    programs = None
    if text is not None:
        words = [word for word in text.split(",") if word]
        if not all(word.isascii() and word.isdigit() and len(word) < 4 for word in words):
            raise _bad("programs", text, "numbers parted by commas, 0 to 127 and 128 for drums")
        programs = frozenset(map(int, words))
        if max(programs, default=0) > DRUM_PROGRAM:
            raise _bad("programs", text, "numbers parted by commas, 0 to 127 and 128 for drums")
    shortest = read_number(query, "min_note_ms", 0.0)
    if shortest < 0:
        raise _bad("min_note_ms", query["min_note_ms"], "0 or more milliseconds")
    return NoteFilter(programs, shortest)


def read_number(query: Mapping[str, str], name: str, default: float) -> float:
    """A number of an address. Raises :class:`~.refusal.Refusal` when it is none."""
    text = query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _bad(name, text, "a number")
    return value


def _bad(name: str, text: str, wanted: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, f"{name} expects {wanted}, not {text[:100]!r}")


class Results:
    """Makes the files of jobs, one at a time, and keeps the last few of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def open(self, job: Job, name: str, wanted: NoteFilter) -> BinaryIO:
        """A file of :data:`DOWNLOADS`, open for reading; it can be read even when the job is removed.

        Raises :class:`~.refusal.Refusal` while the song has no result.
        """
        if name != SONG and job.song is None:
            raise Refusal(HTTPStatus.CONFLICT, f"the song is {job.state}; there is no {name} yet")
        key = name if name == SONG else f"{name}_{wanted.key}"
        with self._lock:
            path = job.results.pop(key, None)
            try:
                if path is None:
                    # The filter may be long, the name of a file may not.
                    path = job.folder / f"{name}-{os.urandom(8).hex()}.{DOWNLOADS[name].ending}"
                    _make(job, name, wanted, path)
                file = path.open("rb")
            except AudioError as error:
                raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason_of(error, job.sound)) from None
            if job.cancelled:  # it was removed meanwhile, and writing made its folder anew
                file.close()
                shutil.rmtree(job.folder, ignore_errors=True)
                raise Refusal(HTTPStatus.NOT_FOUND, "there is no such song any more")
            job.results[key] = path  # the last one used stands last
            while len(job.results) > _KEPT:
                job.results.pop(next(iter(job.results))).unlink(missing_ok=True)
            return file


def _make(job: Job, name: str, wanted: NoteFilter, path: Path) -> None:
    if name == SONG:
        _write_song(job.sound, path)
        return
    assert job.song is not None
    song = replace(job.song, notes=wanted.keep(job.song.notes), name=job.name)
    write_outputs(path.with_suffix(""), [DOWNLOADS[name].ending], song)


def _write_song(sound: Path, path: Path) -> None:
    """The sound as the model's reader hears it, mono, at the rate it has."""
    import soundfile

    rate = min(audio_info(sound).sample_rate, _SONG_RATE)
    with (
        atomic_path(path) as temporary,
        soundfile.SoundFile(os.fspath(temporary), "w", rate, 1, "PCM_16", format="WAV") as file,
    ):
        for block in iterate_blocks(sound, rate, rate):
            file.write(block)
