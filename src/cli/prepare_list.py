"""``prepare.py list``: the data sets that are prepared, and the presets."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ..config.environment import Environment
from ..config.names import counted, unknown_name
from ..config.presets import (
    combine_presets,
    get_single_preset,
    list_presets,
    list_stores,
)
from .command import EXIT_OK
from .parser import WIDTH, CommandLine, Option, UsageError, format_help
from .prepare_common import HELP

_ALL = Option("--all", "name also the presets whose data is not prepared", kind="switch", group="options")
_SONGS = Option("--songs", "name the songs of each part", kind="switch", group="options")
LIST_OPTIONS = (HELP, _ALL, _SONGS)


def run_list(command: CommandLine, environment: Environment) -> int:
    """Run ``prepare.py list``."""
    if command.has("--help"):
        intro = (
            "List the data sets that are prepared in the data folder, and the presets that can be trained "
            "on; with names, only the data sets of these names."
        )
        print(format_help("prepare.py list [NAME ...]", intro, LIST_OPTIONS, {}, ("options",)), end="")
        return EXIT_OK
    home = environment.data_home
    stores = list_stores(home)
    for word in command.words:
        if word not in stores:
            raise unknown_name(f"data set in {home}", word, stores)
    if command.words and command.has(_ALL.long):
        raise UsageError(f"{_ALL.long} is about presets: leave out {' '.join(command.words)}")
    stores = [name for name in stores if not command.words or name in command.words]
    print(f"prepared in {home}, each of them a name for -d:")
    wide = max(map(len, stores), default=0)
    for name in stores:
        print(f"  {name:<{wide}}  {_splits(home / name)}")
        if command.has(_SONGS.long):
            for split, songs in _songs(home / name).items():
                _print_names(f"    {split}:", songs, indent=6)
    if not stores:
        print("  nothing")
    if command.words:
        return EXIT_OK
    ready = [name for name in list_presets() if _is_ready(name, home)]
    _print_names("presets whose data is prepared:", ready)
    others = sorted({*list_presets()} - {*ready})
    if command.has(_ALL.long):
        _print_names("presets whose data is not (-d NAME says what is missing):", others)
    elif others:
        print(f"{counted(len(others), 'preset')} more whose data is not prepared: {_ALL.long} names them")
    return EXIT_OK


def _print_names(title: str, names: Sequence[str], indent: int = 2) -> None:
    """A title, and the names below it in lines of the usual width."""
    print(title)
    text = "  ".join(names) or "none"
    lines = textwrap.wrap(text, WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    print(textwrap.indent("\n".join(lines), indent * " "))


def _songs(store: Path) -> dict[str, list[str]]:
    """The songs of each split that has any; nothing of a store that cannot be read, which is said above."""
    from ..data.store import SongStore

    try:
        opened = SongStore.open(store)
    except ValueError:
        return {}
    return {
        split: [repr(str(name)) for name in opened.index(split)["song_id"]]
        for split, count in opened.splits.items()
        if count
    }


def _is_ready(preset: str, home: Path) -> bool:
    """Whether every store of a preset is there."""
    members = combine_presets([preset], home).presets
    return all((home / get_single_preset(name, home).store / "store.json").is_file() for name in members)


def _splits(store: Path) -> str:
    """How many songs each split of a store has."""
    try:
        splits = json.loads((store / "store.json").read_text(encoding="utf-8-sig"))["splits"]
        return ", ".join(f"{name} {counted(int(facts['songs']), 'song')}" for name, facts in splits.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "store.json cannot be read; amt-prepare check says more"
