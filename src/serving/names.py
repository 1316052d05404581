"""Names of files as clients give them: to be shown, and to be given back. They open nothing."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from urllib.parse import quote

_LONGEST = 120
_UNNAMED = "song"


def clean_name(name: str) -> str:
    """The last part of a path as one line of printable text; "song" when nothing is left.

    Examples:
        >>> clean_name("../../etc/passwd")
        'passwd'
    """
    text = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 20] + "…" + text[-19:]
    return text if text.strip(". ") else _UNNAMED


def result_name(name: str, ending: str) -> str:
    """The name of what was made of a file."""
    return f"{PurePosixPath(name).stem or _UNNAMED}.{ending}"


def attachment(name: str) -> str:
    """A ``Content-Disposition`` that saves under that name (RFC 6266)."""
    plain = "".join(letter if letter.isascii() and letter not in '"\\%' else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
