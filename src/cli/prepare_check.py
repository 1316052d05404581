"""``prepare.py check``: what spoils training in data that is prepared."""

from __future__ import annotations

import json
from pathlib import Path

from ..config.environment import Environment
from ..config.presets import list_presets
from .command import EXIT_OK
from .parser import CommandLine, Option, UsageError, format_help
from .prepare_common import HELP, ONE_PER_CORE, PROCESSES, read_processes

EXIT_PROBLEMS = 1
"""Something was found."""

CHECK_OPTIONS = (
    HELP,
    Option("--data-preset", "the same as a word, as other commands have it", "-d", count=0, group="options"),
    Option("--task", "also name notes whose programs have no class in this task", "-tk", group="options"),
    Option("--json", "write all numbers to this file", metavar="FILE", group="options"),
    PROCESSES,
)
_USAGE = "prepare.py check STORE_OR_PRESET ... [options]"


def run_check(command: CommandLine, environment: Environment) -> int:
    """Run ``prepare.py check``: 0 when all is well, 1 with problems, 2 when it cannot look."""
    if command.has("--help"):
        intro = (
            "Look for what spoils training: labels past the sound or shifted against it, silent and clipped "
            "sound, songs without notes, songs in two splits, pitches no instrument plays. A word is the "
            "folder of a data set, its name, or a preset (several count together, as for -d). The exit "
            "status is 1 when something is found."
        )
        print(format_help(_USAGE, intro, CHECK_OPTIONS, {PROCESSES.long: ONE_PER_CORE}, ("options",)), end="")
        return EXIT_OK
    words = list(command.words)
    if command.has("--data-preset"):
        words += map(str, command.given["--data-preset"].values)
    if not words:
        raise UsageError(f"check needs a data set or a preset: {_USAGE}")
    processes = read_processes(command)
    from ..config.tasks import get_task
    from ..data.store import SongStore
    from ..inference.files import atomic_path
    from ..preparation.check import check_splits, print_check, splits_of_presets, splits_of_store
    from ..reports.table import make_console

    out = Path(str(command.get("--json", ""))) if command.has("--json") else None
    if out is not None and out.is_dir():
        raise UsageError(f"--json {out} is a folder; name a file")
    task = str(command.get("--task", "")) if command.has("--task") else None
    if task is not None:
        get_task(task)
    folder = _store_folder(words[0], environment)
    if len(words) == 1 and folder is not None:
        splits = splits_of_store(SongStore.open(folder))
    else:
        splits = splits_of_presets(words, environment.data_home, environment.excluded_presets)
    report = check_splits(splits, task=task, processes=processes)
    print_check(report, make_console())
    if out is not None:
        text = json.dumps(report.as_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        with atomic_path(out) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    return EXIT_PROBLEMS if report.problems else EXIT_OK


def _store_folder(word: str, environment: Environment) -> Path | None:
    """The folder of a single store, where the word means one."""
    if (Path(word) / "store.json").is_file():
        return Path(word)
    own = environment.data_home / word
    return own if word not in list_presets() and (own / "store.json").is_file() else None
