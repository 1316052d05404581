"""The on-disk form of every data set: whole songs as stems and notes, opened in milliseconds.

A store is a folder::

    store.json                 format, version, name, sample rate, songs and hash of each split
    index/<split>.npy          one row of INDEX fields per song
    songs/<song id>/stems.npy  int16 (stems, samples); or stem00.flac, stem01.flac, ...
    songs/<song id>/notes.npy  NOTE_DTYPE, seconds from the start of the song
    songs/<song id>/song.json  stem names and programs, and what else is known of the song

A split may be a view: made of songs of other splits.

Nothing is pickled, and no file handle outlives the call that needs it.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..config.names import counted, unknown_name
from ..notes.note import NOTE_DTYPE, NoteArray
from .store_audio import ARRAY, CODINGS, each_part, open_stems, read_part
from .store_format import (
    FORMAT,
    INDEX_FIELDS,
    SONG_HASHES,
    VERSION,
    StemArray,
    StoreError,
    count_programs,
    read_array,
    shown_problems,
    update_digest,
)
from .store_writer import StoreWriter
from .strict_json import read_json_object

__all__ = ["FORMAT", "VERSION", "Song", "SongStore", "StemArray", "StoreError", "StoreWriter", "mix_stems"]

_SONG_KEYS = ("song_id", "num_samples", "sha256", "stems")


class Song:
    """One song of a store. Cheap to make: files are read when a field needs them."""

    def __init__(self, folder: Path, row: np.void, sample_rate: int, coding: str = ARRAY) -> None:
        self.folder = folder
        self._coding = coding
        self.sample_rate = sample_rate
        self.song_id = str(row["song_id"])
        self.num_samples = int(row["num_samples"])
        self.num_stems = int(row["num_stems"])
        self.num_notes = int(row["num_notes"])
        self.octave_unknown = bool(row["octave_unknown"])

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The contents of ``song.json``."""
        return read_json_object(self.folder / "song.json")

    @property
    def stem_names(self) -> list[str]:
        """Name of each stem."""
        return [str(stem["name"]) for stem in self.meta["stems"]]

    @property
    def stem_programs(self) -> list[list[int]]:
        """MIDI programs of each stem: ``[128]`` for drums, ``[]`` for sound without notes."""
        return [[int(program) for program in stem["programs"]] for stem in self.meta["stems"]]

    @property
    def unannotated(self) -> list[int]:
        """Programs that can be heard in the song but have no notes in it."""
        return [int(program) for program in self.meta.get("unannotated", [])]

    @property
    def stems(self) -> StemArray:
        """All stems, int16 (stems, samples), memory mapped where the store holds arrays; the file is closed
        with the last reference."""
        return open_stems(self.folder, self._coding, self.num_stems, self.num_samples)

    def read_stems(
        self, start: int = 0, stop: int | None = None, stems: Sequence[int] | None = None
    ) -> StemArray:
        """Samples ``start`` to ``stop`` of the chosen stems, int16 (chosen, stop - start), in memory.

        Samples outside the song are zeros. Reads just those bytes and keeps no handle.
        """
        return read_part(
            self.folder,
            self._coding,
            (self.num_stems, self.num_samples),
            start,
            self.num_samples if stop is None else stop,
            range(self.num_stems) if stems is None else stems,
        )

    def each_stem(self, start: int, stop: int, stems: Sequence[int]) -> Iterator[npt.NDArray[np.int16]]:
        """As :meth:`read_stems`, one stem after another in the same buffer: use each before the next."""
        return each_part(self.folder, self._coding, (self.num_stems, self.num_samples), start, stop, stems)

    @property
    def notes(self) -> NoteArray:
        """All notes of the song, sorted by onset."""
        path = self.folder / "notes.npy"
        notes: NoteArray = read_array(path)
        if notes.dtype != NOTE_DTYPE or notes.shape != (self.num_notes,):
            raise StoreError(
                f"{path}: does not hold {counted(self.num_notes, 'note')}, as the index says; "
                "prepare the store again"
            )
        return notes

    def mix(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float32]:
        """Sum of all stems, float32 mono (samples,) in [-1, 1]; zeros outside the song."""
        return mix_stems(self.read_stems(start, stop))


def mix_stems(stems: StemArray) -> npt.NDArray[np.float32]:
    """Sum of int16 stems (stems, samples) as float32 (samples,), clipped to [-1, 1]."""
    scale = np.full(len(stems), 1 / 32768, dtype=np.float32)
    mixed: npt.NDArray[np.float32] = scale @ stems.astype(np.float32)  # exact up to 256 stems
    np.clip(mixed, -1.0, 1.0, out=mixed)
    return mixed


class SongStore:
    """A store open for reading. Holds the index only; safe to pickle and to use in any process."""

    def __init__(self, path: Path, header: dict[str, Any], index: dict[str, npt.NDArray[np.void]]) -> None:
        self.path = path
        self.header = header
        self.name = str(header["name"])
        self.sample_rate = int(header["sample_rate"])
        self.coding = str(header.get("audio", ARRAY))
        """How the stems are stored: ``npy`` or ``flac``."""
        self._index = index

    @classmethod
    def open(cls, path: str | Path) -> SongStore:
        """Open the store in folder ``path``; milliseconds, whatever its size.

        Raises:
            StoreError: lists everything that is wrong with ``store.json``, the index files and the song
                folders at once. The files inside the song folders are checked when they are read, or by
                :meth:`check`.
        """
        path = Path(path)
        if not (path / "store.json").is_file():
            raise StoreError(f"{path}: no prepared store (store.json is missing); build it with amt-prepare")
        try:
            header = read_json_object(path / "store.json")
        except ValueError as error:
            raise StoreError(str(error)) from None
        if header.get("format") != FORMAT:
            raise StoreError(f"{path / 'store.json'}: the format is {header.get('format')!r}, not {FORMAT!r}")
        version = header.get("version")
        if version not in range(1, VERSION + 1):
            raise StoreError(
                f"{path / 'store.json'}: store version {version}, this version of amt reads up to {VERSION}; "
                "update amt or prepare the store again"
            )
        problems: list[str] = []
        if header.get("audio", ARRAY) not in CODINGS:
            problems.append(f"store.json: 'audio' is {header['audio']!r}, not one of {', '.join(CODINGS)}")
        if not isinstance(header.get("name"), str):
            problems.append("store.json: 'name' is missing or no text")
        rate = header.get("sample_rate")
        if not isinstance(rate, int) or isinstance(rate, bool) or rate <= 0:
            problems.append(f"store.json: 'sample_rate' is {rate!r}, not a positive number")
        splits = header.get("splits")
        if not isinstance(splits, dict) or not splits:
            problems.append("store.json: 'splits' is missing or empty")
            splits = {}
        try:
            present = set(os.listdir(path / "songs"))
        except OSError:
            present = set()
            problems.append("the folder songs/ is missing")
        index: dict[str, npt.NDArray[np.void]] = {}
        owner: dict[str, str] = {}
        for split, facts in splits.items():
            rows = _read_index(path, split, facts, problems)
            if rows is None:
                continue
            index[split] = rows
            ids = rows["song_id"].tolist()
            problems += [
                f"the folder songs/{song_id} is missing" for song_id in ids if song_id not in present
            ]
            if _is_view(facts):
                continue
            for song_id in ids:
                if owner.setdefault(song_id, split) != split:
                    problems.append(f"song {song_id!r} stands in {owner[song_id]!r} and in {split!r}")
        _raise_problems(path, problems)
        return cls(path, header, index)

    @property
    def splits(self) -> dict[str, int]:
        """Number of songs of each split."""
        return {split: len(rows) for split, rows in self._index.items()}

    def index(self, split: str) -> npt.NDArray[np.void]:
        """The rows of a split: song_id, num_samples, num_stems, num_notes, octave_unknown."""
        if split not in self._index:
            raise unknown_name(f"split of store {self.name}", split, self._index)
        return self._index[split]

    def song(self, split: str, i: int) -> Song:
        """Song number ``i`` of a split."""
        row = self.index(split)[i]
        return Song(self.path / "songs" / str(row["song_id"]), row, self.sample_rate, self.coding)

    def content_hash(self, split: str) -> str:
        """sha256 (hex) over the samples and notes of the songs of a split, in order, as they are on disk.

        For a split made of songs of others, or made in pieces: over the hashes of its songs.
        """
        digest = hashlib.sha256()
        by_song = self.is_view(split) or self.header["splits"][split].get("hash_of") == SONG_HASHES
        for i in range(len(self.index(split))):
            song = self.song(split, i)
            own = hashlib.sha256() if by_song else digest
            update_digest(own, song.stems, song.notes)
            if by_song:
                digest.update(own.hexdigest().encode())
        return digest.hexdigest()

    def is_view(self, split: str) -> bool:
        """Whether a split is made of songs of other splits."""
        self.index(split)
        return _is_view(self.header["splits"][split])

    def recorded_hash(self, split: str) -> str:
        """The hash of a split that its writer noted in ``store.json``."""
        self.index(split)
        return str(self.header["splits"][split]["sha256"])

    def notes_by_program(self, split: str) -> Counter[int]:
        """How many notes a split has of each program (128: drums). Reads all notes where ``store.json``, of a
        store of an earlier version, does not say."""
        index = self.index(split)
        noted = self.header["splits"][split].get("notes_by_program")
        if isinstance(noted, dict):
            return Counter({int(program): int(count) for program, count in noted.items()})
        counts: Counter[int] = Counter()
        for i in range(len(index)):
            counts.update(count_programs(self.song(split, i).notes))
        return counts

    def check(self) -> None:
        """Read every song and compare with index and hashes.

        Raises:
            StoreError: lists all problems at once.
        """
        problems: list[str] = []
        for split, rows in self._index.items():
            if self.is_view(split):
                continue
            for i in range(len(rows)):
                song = self.song(split, i)
                try:
                    digest = hashlib.sha256()
                    update_digest(digest, song.stems, song.notes)
                    for key in _SONG_KEYS:
                        if key not in song.meta:
                            raise StoreError(f"{song.folder / 'song.json'}: the key {key!r} is missing")
                    if len(song.stem_programs) != song.num_stems:
                        raise StoreError(
                            f"{song.folder / 'song.json'}: does not describe "
                            f"{counted(song.num_stems, 'stem')}"
                        )
                    if digest.hexdigest() != song.meta["sha256"]:
                        raise StoreError(f"{song.folder}: the bytes do not have the hash of song.json")
                except ValueError as error:
                    problems.append(str(error))
        _raise_problems(self.path, problems)


def _is_view(facts: Any) -> bool:
    return isinstance(facts, dict) and facts.get("view") is True


def _read_index(path: Path, split: str, facts: Any, problems: list[str]) -> npt.NDArray[np.void] | None:
    file = path / "index" / f"{split}.npy"
    if not file.is_file():
        problems.append(f"index/{split}.npy is missing")
        return None
    try:
        rows: npt.NDArray[np.void] = read_array(file)
    except ValueError as error:
        problems.append(str(error))
        return None
    names = ("song_id", *(name for name, _ in INDEX_FIELDS))
    if rows.ndim != 1 or rows.dtype.names is None or not set(names) <= set(rows.dtype.names):
        problems.append(f"index/{split}.npy does not have the fields {', '.join(names)}")
        return None
    if not isinstance(facts, dict) or facts.get("songs") != len(rows):
        said = facts.get("songs") if isinstance(facts, dict) else facts
        problems.append(f"index/{split}.npy has {counted(len(rows), 'song')}, store.json says {said}")
    for name, kind in INDEX_FIELDS[:3]:
        if len(rows) and int(rows[name].astype(kind).min()) < 0:
            problems.append(f"index/{split}.npy has a negative {name}")
    return rows


def _raise_problems(path: Path, problems: list[str]) -> None:
    if problems:
        shown = "\n  ".join(shown_problems(problems))
        raise StoreError(f"{path}: the store has {len(problems)} problem(s); prepare it again:\n  {shown}")
