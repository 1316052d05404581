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
    found = difflib.get_close_matches(name.lower(), list(lowered), n=count, cutoff=0.5)
    return [lowered[item] for item in found]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """A ``ValueError`` that says ``name`` is no ``kind`` and names the near or all known ones."""
    candidates = sorted(known)
    close = nearest(name, candidates)
    if close:
        hint = f"did you mean {' or '.join(repr(item) for item in close)}?"
    else:
        hint = f"known: {', '.join(candidates) or 'none'}"
    return ValueError(f"unknown {kind} {name!r}; {hint}")


def named_path(text: str) -> Path:
    """The path that ``text`` writes, ``~`` being the home folder; where there is none it stays as it is."""
    return Path(os.path.expanduser(text))


def listing(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first ``most`` items in one line, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return separator.join(items[:most]) + more
