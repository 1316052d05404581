"""The files and streams a transcription is written to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.names import unknown_name
from ..notes import write_midi
from ..notes.midi_write import track_name
from ..notes.note import DRUM_PROGRAM, Note
from .files import PARTS, atomic_path
from .piano_roll import draw_piano_roll
from .render import render_notes, write_wav

if TYPE_CHECKING:
    from .transcriber import Transcription


def check_formats(formats: Sequence[str]) -> None:
    """Refuse output formats that do not exist."""
    for name in formats:
        if name not in WRITERS:
            raise unknown_name("output format", name, WRITERS)
    if not formats:
        raise ValueError(f"no output format given; known: {', '.join(WRITERS)}")


def output_path(stem: Path, name: str) -> Path:
    """Where format ``name`` of a job is written."""
    return stem.with_name(f"{stem.name}.{name}")


def write_outputs(
    stem: Path,
    formats: Sequence[str],
    song: Transcription,
    reference: list[Note] | None = None,
    title: str = "",
) -> tuple[Path, ...]:
    """Write a song in each format; every file is whole or not there."""
    paths = tuple(output_path(stem, name) for name in formats)
    for name, path in zip(formats, paths, strict=True):
        WRITERS[name](path, song, reference, title)
    return paths


def head_line(name: str, duration: float) -> str:
    """The first JSON line of a song."""
    return json.dumps({"file": name, "duration": duration})


def note_line(note: Note) -> str:
    """The JSON line of a note."""
    return json.dumps(note._asdict())


def tail_line(song: Transcription) -> str:
    """The last JSON line of a song: by it a reader knows that nothing is missing."""
    facts = {"notes": len(song.notes), "num_windows": song.num_windows, "errors": dict(song.errors)}
    return json.dumps({"file": song.name, **facts})


def error_line(name: str, reason: str) -> str:
    """The last JSON line of a song that could not be transcribed."""
    return json.dumps({"file": name, "error": reason})


def _write_midi(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    with atomic_path(path) as temporary:
        write_midi(song.notes, temporary, track_names=song.class_names)


def _write_parts(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    parts: dict[str, list[Note]] = {}
    for note in song.notes:
        name = track_name(DRUM_PROGRAM if note.is_drum else note.program, song.class_names)
        parts.setdefault(name, []).append(note)
    with atomic_path(path) as temporary:
        temporary.mkdir()
        for name, notes in parts.items():
            file = temporary / f"{name.replace('/', '-').replace(os.sep, '-')}.mid"
            write_midi(notes, file, track_names=song.class_names)


def _write_png(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    draw_piano_roll(path, song.notes, reference, song.duration, title)


def _write_wav(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    write_wav(path, render_notes(song.notes, 16000, song.duration), 16000)


def _write_json(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    plain: dict[str, Any] = {
        "duration": song.duration,
        "num_windows": song.num_windows,
        "errors": dict(song.errors),
        "notes": [note._asdict() for note in song.notes],
    }
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _write_json_lines(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    lines = [head_line(song.name, song.duration), *map(note_line, song.notes), tail_line(song)]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_csv(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    rows = [",".join(Note._fields)]
    rows += [
        f"{n.onset:.6f},{n.offset:.6f},{n.pitch},{n.program},{int(n.is_drum)},{n.velocity}"
        for n in song.notes
    ]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(rows) + "\n", encoding="utf-8")


Writer = Callable[[Path, "Transcription", "list[Note] | None", str], None]
WRITERS: Mapping[str, Writer] = {
    "mid": _write_midi,
    PARTS: _write_parts,
    "png": _write_png,
    "wav": _write_wav,
    "json": _write_json,
    "jsonl": _write_json_lines,
    "csv": _write_csv,
}
"""Output formats by their file ending; ``parts`` is a folder with one MIDI file per instrument."""
