"""Writing a store: in a temporary folder that takes its name when everything is there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..notes.note import NOTE_DTYPE, NoteArray, note_programs
from .store_audio import ARRAY, FLAC, write_stems
from .store_format import FORMAT, INDEX_FIELDS, VERSION, StemArray, count_programs, update_digest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


class StoreWriter:
    """Writes a store; a context manager.

    Everything goes to a temporary folder beside ``path`` that takes its name at :meth:`close`, so a store is
    whole or not there. An error inside the ``with`` block removes the temporary folder.

    Args:
        path: folder of the store to be.
        name: name of the data set.
        sample_rate: of all stems, in Hz.
        overwrite: replace a store that is already at ``path``.
        flac: store the stems as FLAC: about half the room, several times the CPU time to read.
        facts: further plain values for ``store.json``.

    Raises:
        ValueError: when ``path`` exists and ``overwrite`` is False.
    """

    def __init__(
        self,
        path: str | Path,
        name: str,
        sample_rate: int = 16000,
        *,
        overwrite: bool = False,
        flac: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.name = name
        self.sample_rate = sample_rate
        self._overwrite = overwrite
        self._coding = FLAC if flac else ARRAY
        self._facts = dict(facts or {})
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._digests: dict[str, Any] = {}
        self._views: dict[str, list[str]] = {}
        self._songs: dict[str, tuple[tuple[Any, ...], str]] = {}
        """Index row and hash of each song."""
        self._programs: dict[str, Counter[int]] = {}
        """How many notes each song has of each program (128: drums)."""
        self._open = True
        if not overwrite:
            self._refuse_existing()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(self.path)
        self._temporary = self.path.parent / f".{self.path.name}.{socket.gethostname()}.{os.getpid()}.partial"
        shutil.rmtree(self._temporary, ignore_errors=True)
        (self._temporary / "songs").mkdir(parents=True)
        (self._temporary / "index").mkdir()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def add_split(self, split: str) -> None:
        """Make ``split`` exist even when no song is added to it."""
        if not _NAME.fullmatch(split):
            raise ValueError(f"split name {split!r}: use letters, digits, '_', '-', '.'")
        if split not in self._rows:
            self._rows[split] = []
            self._digests[split] = hashlib.sha256()

    def add_song(
        self,
        split: str,
        song_id: str,
        stems: StemArray,
        stem_programs: Sequence[Sequence[int]],
        stem_names: Sequence[str],
        notes: NoteArray,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one song at the end of ``split``.

        Args:
            split: name of the split; made when new.
            song_id: unique in the store; becomes a folder name.
            stems: int16 (stems, samples).
            stem_programs: MIDI programs of each stem; ``[128]`` drums, ``[]`` sound without notes.
            stem_names: a name for each stem.
            notes: ``NOTE_DTYPE``, seconds; stored sorted by (onset, is_drum, program, pitch, offset).
            meta: further plain values: ``unannotated`` (programs heard without notes), ``octave_unknown``,
                ``source``, ``licence`` and what else is known.

        Raises:
            ValueError: for a song that breaks a rule of the format; the message names the song.
        """
        assert self._open, "the writer is closed"
        if split in self._views:
            raise ValueError(
                f"split {split!r} is made of songs of other splits; a song cannot be added to it"
            )
        self.add_split(split)
        facts = dict(meta or {})
        _check_song_id(song_id, self._songs)
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
        update_digest(self._digests[split], stems, notes)
        folder = self._temporary / "songs" / song_id
        folder.mkdir()
        write_stems(folder, stems, self._coding, self.sample_rate)
        np.save(folder / "notes.npy", notes, allow_pickle=False)
        octave_unknown = bool(facts.pop("octave_unknown", False))
        described = {
            "song_id": song_id,
            "num_samples": stems.shape[1],
            "stems": [{"name": str(n), "programs": p} for n, p in zip(stem_names, programs, strict=True)],
            "unannotated": [int(program) for program in facts.pop("unannotated", [])],
            "octave_unknown": octave_unknown,
            "source": facts.pop("source", ""),
            "licence": facts.pop("licence", ""),
            "sha256": digest.hexdigest(),
        }
        _write_json(folder / "song.json", {**facts, **described})
        row = (song_id, stems.shape[1], stems.shape[0], len(notes), octave_unknown)
        self._songs[song_id] = (row, digest.hexdigest())
        self._programs[song_id] = count_programs(notes)
        self._rows[split].append(row)

    def add_view(self, split: str, song_ids: Sequence[str]) -> None:
        """Make a split of songs that stand in other splits, such as a fold or one player's takes.

        Args:
            split: its name; new.
            song_ids: songs added before, in the order of the split.

        Raises:
            ValueError: for a song that is not there, or a name that is taken.
        """
        assert self._open, "the writer is closed"
        if split in self._rows:
            raise ValueError(
                f"split {split!r} is there already; a split of other splits' songs needs a new name"
            )
        missing = [song_id for song_id in song_ids if song_id not in self._songs]
        if missing:
            raise ValueError(f"split {split!r}: song {missing[0]!r} is not in the store; add it first")
        self.add_split(split)
        self._views[split] = list(song_ids)
        for song_id in song_ids:
            row, digest = self._songs[song_id]
            self._rows[split].append(row)
            self._digests[split].update(digest.encode())

    def close(self) -> None:
        """Write the index and put the finished store in its place."""
        if not self._open:
            return
        splits: dict[str, dict[str, Any]] = {}
        for split, rows in self._rows.items():
            width = max((len(row[0]) for row in rows), default=1)
            dtype = np.dtype([("song_id", f"<U{width}"), *INDEX_FIELDS])
            table = np.array(rows, dtype=dtype)
            np.save(self._temporary / "index" / f"{split}.npy", table, allow_pickle=False)
            programs: Counter[int] = Counter()
            for row in rows:
                programs.update(self._programs[row[0]])
            splits[split] = {
                "songs": len(rows),
                "notes_by_program": {str(program): count for program, count in sorted(programs.items())},
                "samples": int(table["num_samples"].sum()),
                "notes": int(table["num_notes"].sum()),
                "sha256": self._digests[split].hexdigest(),
            }
            if split in self._views:
                splits[split]["view"] = True
        header = {
            "format": FORMAT,
            "version": VERSION if self._views or self._coding == FLAC else 1,
            "name": self.name,
            "sample_rate": self.sample_rate,
            "splits": splits,
            "hash": hashlib.sha256(
                "".join(f"{name} {facts['sha256']}\n" for name, facts in splits.items()).encode()
            ).hexdigest(),
        }
        if self._coding != ARRAY:
            header["audio"] = self._coding
        _write_json(self._temporary / "store.json", {**self._facts, **header})
        self._open = False
        if not self._overwrite:
            self._refuse_existing()
        replaced = None
        if self.path.exists():
            replaced = self._temporary.with_suffix(".replaced")
            shutil.rmtree(replaced, ignore_errors=True)
            os.rename(self.path, replaced)
        os.rename(self._temporary, self.path)
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)

    def abort(self) -> None:
        """Throw away what was written."""
        self._open = False
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _refuse_existing(self) -> None:
        if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise ValueError(
                f"{self.path} exists already; remove it or ask for it to be overwritten (--overwrite)"
            )


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


def _check_song_id(song_id: str, taken: Container[str]) -> None:
    if not song_id or song_id.strip() != song_id or song_id in (".", "..") or re.search(r"[/\\\0]", song_id):
        raise ValueError(f"song id {song_id!r}: cannot be the name of a folder")
    if len(song_id.encode()) > 200:
        raise ValueError(f"song id {song_id!r}: longer than 200 bytes")
    if song_id in taken:
        raise ValueError(f"song id {song_id!r}: occurs twice in the store")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _remove_stale(path: Path) -> None:
    """Remove temporary folders of writers of this machine that are gone."""
    pattern = re.compile(re.escape(f".{path.name}.{socket.gethostname()}.") + r"(\d+)\.(partial|replaced)")
    for item in path.parent.iterdir():
        found = pattern.fullmatch(item.name)
        if found is None:
            continue
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(item, ignore_errors=True)
        except PermissionError:
            continue
