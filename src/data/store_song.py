"""Writing one song of a store, and the rules it must keep; a process of its own can do it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..notes.note import NOTE_DTYPE, NoteArray, note_programs
from .store_audio import write_stems
from .store_format import StemArray, update_digest


def write_song(
    folder: Path,
    song_id: str,
    stems: StemArray,
    stem_programs: Sequence[Sequence[int]],
    stem_names: Sequence[str],
    notes: NoteArray,
    meta: Mapping[str, Any],
    *,
    coding: str,
    sample_rate: int,
) -> tuple[dict[str, Any], NoteArray]:
    """Write a song into the new folder ``folder``; arguments as for ``StoreWriter.add_song``.

    Returns:
        What ``song.json`` says, and the notes as they are stored.

    Raises:
        ValueError: for a song that breaks a rule of the format; nothing is written then.
    """
    stems = np.ascontiguousarray(stems)
    if stems.dtype != np.int16 or stems.ndim != 2:
        raise ValueError(
            f"song {song_id!r}: stems must be int16 (stems, samples), not {stems.dtype} {stems.shape}"
        )
    if len(stem_programs) != len(stems) or len(stem_names) != len(stems):
        raise ValueError(
            f"song {song_id!r}: {len(stems)} stems, {len(stem_programs)} lists of programs, "
            f"{len(stem_names)} names: the numbers must agree"
        )
    programs = [[int(program) for program in group] for group in stem_programs]
    if any(not 0 <= program <= 128 for group in programs for program in group):
        raise ValueError(f"song {song_id!r}: stem programs must lie in 0 to 128")
    notes = _checked_notes(song_id, notes)
    _check_programs(song_id, notes, {program for group in programs for program in group})
    digest = hashlib.sha256()
    update_digest(digest, stems, notes)
    folder.mkdir()
    write_stems(folder, stems, coding, sample_rate)
    np.save(folder / "notes.npy", notes, allow_pickle=False)
    facts = dict(meta)
    described = {
        **facts,
        "song_id": song_id,
        "num_samples": stems.shape[1],
        "stems": [{"name": str(n), "programs": p} for n, p in zip(stem_names, programs, strict=True)],
        "unannotated": [int(program) for program in facts.get("unannotated", [])],
        "octave_unknown": bool(facts.get("octave_unknown", False)),
        "source": facts.get("source", ""),
        "licence": facts.get("licence", ""),
        "sha256": digest.hexdigest(),
    }
    write_json(folder / "song.json", described)
    return described, notes


def check_song_id(song_id: str, taken: Container[str]) -> None:
    """Refuse an id that is no folder name or stands in ``taken``."""
    if not song_id or song_id.strip() != song_id or song_id in (".", "..") or re.search(r"[/\\\0]", song_id):
        raise ValueError(f"song id {song_id!r}: cannot be the name of a folder")
    if len(song_id.encode()) > 200:
        raise ValueError(f"song id {song_id!r}: longer than 200 bytes")
    if song_id in taken:
        raise ValueError(f"song id {song_id!r}: occurs twice in the store")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write plain values in the one form that stores use, so that the same values give the same bytes."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _checked_notes(song_id: str, notes: NoteArray) -> NoteArray:
    if notes.dtype != NOTE_DTYPE or notes.ndim != 1:
        raise ValueError(f"song {song_id!r}: notes must be a one-dimensional array of NOTE_DTYPE")
    if not (np.isfinite(notes["onset"]).all() and np.isfinite(notes["offset"]).all()):
        raise ValueError(f"song {song_id!r}: a note has a time that is not finite")
    if len(notes) and (notes["onset"].min() < 0 or (notes["offset"] < notes["onset"]).any()):
        raise ValueError(f"song {song_id!r}: a note starts before 0 s or ends before it starts")
    if len(notes) and (notes["pitch"].min() < 0 or notes["pitch"].max() > 127):
        raise ValueError(f"song {song_id!r}: a pitch lies outside 0 to 127")
    order = np.lexsort((notes["offset"], notes["pitch"], notes["program"], notes["is_drum"], notes["onset"]))
    return np.ascontiguousarray(notes[order])


def _check_programs(song_id: str, notes: NoteArray, known: set[int]) -> None:
    own = np.unique(note_programs(notes))
    strange = sorted({int(program) for program in own} - known)
    if strange:
        raise ValueError(
            f"song {song_id!r}: notes of program {', '.join(map(str, strange))} belong to no stem; "
            "list each note's program (128: drums) among the programs of the stem that plays it"
        )
