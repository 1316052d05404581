"""Writing a store: in a temporary folder that takes its name when everything is there."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..notes.note import NoteArray
from .file_lock import take_lock
from .store_audio import ARRAY, FLAC
from .store_format import FORMAT, INDEX_FIELDS, SONG_HASHES, VERSION, StemArray, count_programs, update_digest
from .store_song import check_song_id, write_json, write_song
from .strict_json import read_json_object

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_LOCK = "lock"


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
        resume: what is written stays when writing is broken off, and the next writer that resumes goes on
            with it (see :attr:`songs_folder`; notes of what is finished have a place in :attr:`folder`).
            Splits then have a hash over the hashes of their songs.

    Raises:
        ValueError: when ``path`` exists and ``overwrite`` is False, or another process resumes it now.
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
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        self.name = name
        self.sample_rate = sample_rate
        self._overwrite = overwrite
        self.coding = FLAC if flac else ARRAY
        """How the stems are stored: ``npy`` or ``flac``."""
        self._resume = resume
        self._facts = dict(facts or {})
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._digests: dict[str, Any] = {}
        self._views: dict[str, list[str]] = {}
        self._songs: dict[str, tuple[tuple[Any, ...], str]] = {}
        """Index row and hash of each song."""
        self._programs: dict[str, Counter[int]] = {}
        """How many notes each song has of each program (128: drums)."""
        self._open = True
        self.folder: Path
        """The temporary folder, until the store is closed."""
        if not overwrite:
            self._refuse_existing()
        if self.path.parent.exists() and not self.path.parent.is_dir():
            raise ValueError(f"{self.path.parent}: is no folder, so no data set can be written into it")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(self.path)
        self._lock: int | None = None
        own = f".{self.path.name}.{socket.gethostname()}.{os.getpid()}"
        self._replaced = self.path.parent / f"{own}.replaced"
        if resume:
            self.folder = self.path.parent / f".{self.path.name}.unfinished"
            self._lock = self._take_lock()
        else:
            self.folder = self.path.parent / f"{own}.partial"
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
        self._store = self.folder / "store"
        self.songs_folder.mkdir(parents=True, exist_ok=True)
        (self._store / "index").mkdir(exist_ok=True)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    @property
    def songs_folder(self) -> Path:
        """Where the songs of the store to be lie, one folder each."""
        return self._store / "songs"

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
        check_song_id(song_id, self._songs)
        described, notes = write_song(
            self.songs_folder / song_id,
            song_id,
            stems,
            stem_programs,
            stem_names,
            notes,
            meta or {},
            coding=self.coding,
            sample_rate=self.sample_rate,
        )
        if not self._resume:
            update_digest(self._digests[split], np.ascontiguousarray(stems), notes)
        self._note_song(split, described, notes)

    def add_finished(self, split: str, song_id: str) -> None:
        """Add a song that ``write_song`` wrote into :attr:`songs_folder`, of a writer that resumes."""
        assert self._open, "the writer is closed"
        assert self._resume, "songs are written ahead only for a writer that resumes"
        assert split not in self._views
        self.add_split(split)
        check_song_id(song_id, self._songs)
        folder = self.songs_folder / song_id
        notes = np.load(folder / "notes.npy", allow_pickle=False)
        self._note_song(split, read_json_object(folder / "song.json"), notes)

    def _note_song(self, split: str, described: Mapping[str, Any], notes: NoteArray) -> None:
        song_id = described["song_id"]
        row = (
            song_id,
            described["num_samples"],
            len(described["stems"]),
            len(notes),
            described["octave_unknown"],
        )
        if self._resume:
            self._digests[split].update(described["sha256"].encode())
        self._songs[song_id] = (row, described["sha256"])
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
        try:
            self._write_header()
            self._open = False
            self._take_name()
        except BaseException:
            self.abort()
            raise
        self._release_lock()

    def _write_header(self) -> None:
        """Write the index and ``store.json``."""
        splits: dict[str, dict[str, Any]] = {}
        for split, rows in self._rows.items():
            width = max((len(row[0]) for row in rows), default=1)
            dtype = np.dtype([("song_id", f"<U{width}"), *INDEX_FIELDS])
            table = np.array(rows, dtype=dtype)
            np.save(self._store / "index" / f"{split}.npy", table, allow_pickle=False)
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
            elif self._resume:
                splits[split]["hash_of"] = SONG_HASHES
        header = {
            "format": FORMAT,
            "version": VERSION if self._views or self.coding == FLAC else 1,
            "name": self.name,
            "sample_rate": self.sample_rate,
            "splits": splits,
            "hash": hashlib.sha256(
                "".join(f"{name} {facts['sha256']}\n" for name, facts in splits.items()).encode()
            ).hexdigest(),
        }
        if self.coding != ARRAY:
            header["audio"] = self.coding
        write_json(self._store / "store.json", {**self._facts, **header})

    def _take_name(self) -> None:
        """Give the finished store its name."""
        if not self._overwrite:
            self._refuse_existing()
        if self.path.exists():
            os.rename(self.path, self._replaced)
        try:
            os.rename(self._store, self.path)
        except OSError:
            if self._replaced.exists():
                os.rename(self._replaced, self.path)
            raise
        for folder in (self.folder, self._replaced):
            shutil.rmtree(folder, ignore_errors=True)

    def abort(self) -> None:
        """Throw away what was written; a writer that resumes keeps finished songs for the next."""
        self._open = False
        if not (self._resume and self.songs_folder.is_dir() and any(self.songs_folder.iterdir())):
            shutil.rmtree(self.folder, ignore_errors=True)
        self._release_lock()

    def _take_lock(self) -> int:
        """Lock the temporary folder, made where it is not there."""
        path = self.folder / _LOCK
        while True:
            self.folder.mkdir(exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT)
            try:
                take_lock(lock, f"{self.path}: another process is preparing it; wait for it or stop it")
                if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)  # who held it has finished and removed it

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _refuse_existing(self) -> None:
        if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise ValueError(
                f"{self.path} exists already; --overwrite replaces it once the new one is finished, another "
                "name keeps both"
            )


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
