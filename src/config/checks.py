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


def check_positive(owner: object, **flags: str) -> None:
    """Refuse fields of ``owner`` that are not above 0; each is given with its flag.

    Raises:
        ValueError: names the flag.
    """
    for name, flag in flags.items():
        if getattr(owner, name) <= 0:
            raise ValueError(f"{flag} must be positive, not {getattr(owner, name)}")


def check_least(flag: str, value: float, least: int) -> None:
    """Refuse a number that is too small.

    Raises:
        ValueError: names the flag or variable.
    """
    if value < least:
        raise ValueError(f"{flag} must be {least} or more, not {value:g}")


def check_share(flag: str, value: float) -> None:
    """Refuse a share that is not from 0 to below 1, such as a dropout.

    Raises:
        ValueError: names the flag.
    """
    if not 0 <= value < 1:
        raise ValueError(f"{flag} is a share from 0 to below 1, not {value}")


def check_experts(chosen: int, experts: int, flags: tuple[str, str]) -> None:
    """Refuse a token that goes to no expert, or to more than there are.

    Raises:
        ValueError: names ``flags``, that of ``chosen`` and that of ``experts``.
    """
    if not 1 <= chosen <= experts:
        raise ValueError(
            f"{flags[0]} {chosen} must lie from 1 to the number of experts, {flags[1]} {experts}"
        )
