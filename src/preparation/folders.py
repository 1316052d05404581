"""All files below a folder that may be part of somebody's songs, in a fixed order."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from .building import BuildReport

TRANSCRIBED = "_transcribed"
"""Ending of the names of transcriptions beside their sound (``ENDING`` of ``inference.planning``)."""


def each_folder(source: Path, report: BuildReport) -> Iterator[tuple[Path, list[Path]]]:
    """``source`` and each folder below it with its files, sorted.

    Hidden files and folders are passed over, and what predict.py wrote beside a song, which the report
    mentions. Links to folders are followed, each folder is entered once.
    """
    entered: set[str] = set()
    for folder, folders, files in os.walk(source, followlinks=True):
        real = os.path.realpath(folder)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        stems = {Path(file).stem for file in files}
        paths = []
        for file in sorted(files):
            own = Path(file).stem.removesuffix(TRANSCRIBED)
            if own != Path(file).stem and own in stems:
                report.remarks.append(f"{folder}/{file}: left out, a transcription that predict.py wrote")
            elif not file.startswith("."):
                paths.append(Path(folder) / file)
        yield Path(folder), paths


def existing_file(folder: Path, written: str) -> Path | None:
    """The file of a path that somebody wrote down, relative to ``folder``.

    Where there is none of that name, one is taken whose path was written on Windows, or whose letters are
    composed otherwise.
    """
    spellings = [written, written.replace("\\", "/")]
    spellings += [unicodedata.normalize(form, spellings[1]) for form in ("NFC", "NFD")]
    return next((path for path in (folder / spelling for spelling in spellings) if path.is_file()), None)


def name_below(source: Path, path: Path) -> str:
    """A path below ``source`` as a name: ``/`` between folders, NFC, bytes that are no UTF-8 replaced."""
    return readable(path.relative_to(source).as_posix())


def readable(name: str) -> str:
    """NFC; bytes that are no UTF-8 become replacement characters."""
    return unicodedata.normalize("NFC", name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
