"""Checks that records of the configuration share."""

from __future__ import annotations

from collections.abc import Iterable

from .names import unknown_name


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not in a table.

    Raises:
        ValueError: names ``kind`` and the near or known ones.
    """
    known = tuple(known)
    if name not in known:
        raise unknown_name(kind, name, known)


def check_positive(owner: object, *names: str) -> None:
    """Refuse fields of ``owner`` that are not above 0.

    Raises:
        ValueError: names the field.
    """
    for name in names:
        if getattr(owner, name) <= 0:
            raise ValueError(f"{type(owner).__name__}.{name} must be positive, not {getattr(owner, name)}")
