"""Options that several commands of ``prepare.py`` share."""

from __future__ import annotations

from pathlib import Path

from .parser import CommandLine, Option, UsageError

HELP = Option("--help", "show this text and exit", "-h", "switch", group="options")
PROCESSES = Option("--processes", "processes that work side by side", kind="int", group="options")
FLAC = Option("--flac", "store FLAC: half the room, slower to read", kind="switch", group="options")
ONE_PER_CORE = "one per core, at most 16"
"""Default of ``PROCESSES`` where nothing else is said."""

QUOTES = "; a path or name with blanks goes into quotes ('my songs')"
"""Ends the message where there are too many words."""


def read_processes(command: CommandLine) -> int | None:
    """The value of ``PROCESSES``; None without one."""
    return at_least_one(command, PROCESSES.long)


def at_least_one(command: CommandLine, option: str) -> int | None:
    """A whole number from 1 on; None without one."""
    number = int(command.get(option, 1))
    if number < 1:
        raise UsageError(f"{option} must be at least 1, not {number}")
    return number if command.has(option) else None


def written(command: CommandLine, out: Path) -> str:
    """Where a new data set is, and in which format its sound."""
    sound = "FLAC" if command.has(FLAC.long) else "16-bit arrays"
    return f"data set written to {out}, its sound as {sound}"
