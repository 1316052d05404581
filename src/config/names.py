"""Names in messages: errors for those that are not in a table list the near ones."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The ``count`` known names closest to ``name``, best first; may be empty."""
    candidates = sorted(known)
    lowered: dict[str, str] = {}
    for candidate in candidates:
        lowered.setdefault(candidate.lower(), candidate)
    found = difflib.get_close_matches(name.lower(), list(lowered), n=count, cutoff=0.6)
    return [lowered[item] for item in found]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """A ``ValueError`` that says ``name`` is no ``kind`` and names the near or all known ones."""
    candidates = sorted(known)
    close = nearest(name, candidates)
    hint = did_you_mean(close) if close else f"known: {', '.join(candidates) or 'none'}"
    return ValueError(f"unknown {kind} {name!r}; {hint}")


def did_you_mean(close: Iterable[str]) -> str:
    """The question that offers the names of :func:`nearest`."""
    return f"did you mean {' or '.join(repr(item) for item in close)}?"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 song``, ``2 songs``, ``1,200 songs``.

    Args:
        count: how many.
        noun: what one is called.
        plural: what several are called; with an ``s`` if not given.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def named_path(text: str) -> Path:
    """The path that ``text`` writes, ``~`` being the home folder; where there is none it stays as it is."""
    return Path(os.path.expanduser(text))


def listing(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first ``most`` items in one line, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return separator.join(items[:most]) + more


def from_above(path: Path) -> str:
    """Where a path that was meant from the folder above is, for a message; "" when it is not there."""
    above = Path("..") / path
    return f" (there is {above})" if not path.is_absolute() and above.is_file() else ""
