"""Output files: whole or not there, and never one over the other."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PARTS = "parts"
"""Ending of the folder that holds one MIDI file per instrument."""
_TEMPORARY = re.compile(r"\.[0-9]+\.(?P<name>.+)")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it takes the name ``path`` when the block ends well.

    The block may also make a folder there; one that has the name ``path`` is then replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{os.getpid()}.{_short(path.name)}"
    _remove(temporary)
    try:
        yield temporary
        if temporary.is_dir() and path.exists():
            old = path.parent / f".{os.getpid()}.{_short('old ' + path.name)}"
            _remove(old)
            os.rename(path, old)
            os.rename(temporary, path)
            _remove(old)
        else:
            os.replace(temporary, path)
    finally:
        _remove(temporary)


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Remove what killed processes left of writing ``paths`` with :func:`atomic_path`.

    Nobody may be writing them.
    """
    names: dict[Path, set[str]] = {}
    for path in paths:
        names.setdefault(path.parent, set()).update((_short(path.name), _short("old " + path.name)))
    for folder, wanted in names.items():
        for name in os.listdir(folder) if folder.is_dir() else ():
            found = _TEMPORARY.fullmatch(name)
            if found and found["name"] in wanted:
                _remove(folder / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _short(name: str) -> str:
    # Keeps the extension, which some writers look at, within what file systems allow.
    return name if len(os.fsencode(name)) < 200 else name[-60:]


def output_stems(
    inputs: Sequence[Path],
    folders: Sequence[Path],
    endings: Sequence[str],
    *,
    kept: Mapping[Path, Path] | None = None,
    reserved: Iterable[Path] = (),
) -> list[Path]:
    """For each input the path of its outputs without their extension; no two are equal.

    The name is the input's without its last extension, and its ending. Inputs that would then share a name
    (``song.wav`` and ``song.flac``, or equal names of several folders) keep the extension, and are numbered
    when that is not enough. Names that differ in case only count as equal.

    Args:
        inputs: audio files.
        folders: where the outputs of each go.
        endings: what is added to the name of each.
        kept: names that inputs have from before.
        reserved: names that no input gets.
    """
    kept = kept or {}
    fixed = {_key(stem) for stem in (*kept.values(), *reserved, *_stems_of_parts(folders))}
    short = [
        folder / (_stem(path.name) + ending)
        for path, folder, ending in zip(inputs, folders, endings, strict=True)
    ]
    counts = Counter(_key(stem) for path, stem in zip(inputs, short, strict=True) if path not in kept)
    taken = fixed | {key for key, count in counts.items() if count == 1}
    stems: list[Path] = []
    for path, folder, ending, stem in zip(inputs, folders, endings, short, strict=True):
        if path in kept:
            stem = kept[path]
        elif counts[_key(stem)] > 1 or _key(stem) in fixed:
            stem, number = folder / (path.name + ending), 2
            while _key(stem) in taken:
                stem, number = folder / f"{path.name}{ending} ({number})", number + 1
            taken.add(_key(stem))
        stems.append(stem)
    return stems


def _stems_of_parts(folders: Sequence[Path]) -> Iterator[Path]:
    """Stems whose folder of parts is one that other outputs go into."""
    for path in {parent for folder in set(folders) for parent in (folder, *folder.parents)}:
        if path.suffix == f".{PARTS}":
            yield path.with_suffix("")


def printable(text: str) -> str:
    """``text`` as any terminal takes it: file names may hold bytes that are no letters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _stem(name: str) -> str:
    head, dot, tail = name.rpartition(".")
    return head if dot and head and 0 < len(tail) <= 5 and tail.isalnum() else name


def _key(path: Path) -> str:
    # Some file systems ignore case and take composed and decomposed letters as one.
    return unicodedata.normalize("NFC", os.fspath(path)).casefold()
