"""Output files: whole or not there, and never one over the other."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it takes the name ``path`` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{os.getpid()}.{_short(path.name)}"
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _short(name: str) -> str:
    # Keeps the extension, which some writers look at, within what file systems allow.
    return name if len(name.encode()) < 200 else name[-60:]


def output_stems(inputs: Sequence[Path], folders: Sequence[Path], endings: Sequence[str]) -> list[Path]:
    """For each input the path of its outputs without their extension; no two are equal.

    The name is the input's without its last extension, and its ending. Inputs that would then share a name
    (``song.wav`` and ``song.flac``, or equal names of several folders) keep the extension, and are numbered
    when that is not enough. Names that differ in case only count as equal.

    Args:
        inputs: audio files.
        folders: where the outputs of each go.
        endings: what is added to the name of each.
    """
    short = [
        folder / (_stem(path.name) + ending)
        for path, folder, ending in zip(inputs, folders, endings, strict=True)
    ]
    counts = Counter(_key(stem) for stem in short)
    taken = {key for key, count in counts.items() if count == 1}
    stems: list[Path] = []
    for path, folder, ending, stem in zip(inputs, folders, endings, short, strict=True):
        if counts[_key(stem)] > 1:
            stem, number = folder / (path.name + ending), 2
            while _key(stem) in taken:
                stem, number = folder / f"{path.name}{ending} ({number})", number + 1
            taken.add(_key(stem))
        stems.append(stem)
    return stems


def _stem(name: str) -> str:
    head, dot, tail = name.rpartition(".")
    return head if dot and head and 0 < len(tail) <= 5 and tail.isalnum() else name


def _key(path: Path) -> str:
    # Some file systems ignore case and take composed and decomposed letters as one.
    return unicodedata.normalize("NFC", os.fspath(path)).casefold()
