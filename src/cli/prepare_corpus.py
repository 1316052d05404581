"""``prepare.py DATA_SET FOLDER``: published data sets, read from their own layout."""

from __future__ import annotations

from pathlib import Path

from ..config.environment import Environment
from ..config.names import counted
from ..preparation.corpora import CORPORA
from .command import EXIT_OK
from .parser import CommandLine, Option, UsageError, format_help
from .prepare_common import FLAC, HELP, ONE_PER_CORE, PROCESSES, QUOTES, at_least_one, read_processes, written

CORPUS_OPTIONS = (
    HELP,
    PROCESSES,
    Option("--limit", "only the first N songs of each split, for a try", kind="int", group="options"),
    FLAC,
    Option("--skip-broken", "leave out songs that cannot be read", kind="switch", group="options"),
    Option("--overwrite", "replace a data set that is there", kind="switch", group="options"),
)
CORPUS_DEFAULTS = {PROCESSES.long: ONE_PER_CORE}


def corpora_help() -> str:
    """A line for each data set: its command and what its folder holds."""
    return "".join(f"  {name:<14} {text}\n" for name, text in CORPORA.items())


def run_corpus(name: str, command: CommandLine, environment: Environment) -> int:
    """Prepare the data set ``name`` (of ``CORPORA``) and return the exit code."""
    usage = f"prepare.py {name} FOLDER [options]"
    if command.has("--help"):
        intro = f"Make the data set {name} of FOLDER, which holds {CORPORA[name]}."
        print(format_help(usage, intro, CORPUS_OPTIONS, CORPUS_DEFAULTS, ("options",)), end="")
        return EXIT_OK
    if len(command.words) != 1:
        hint = QUOTES if command.words else ""
        raise UsageError(f"{name} needs the folder of the data set: {usage}{hint}")
    source = Path(command.words[0])
    if not source.is_dir():
        raise UsageError(f"{source} is no folder")
    processes, limit = read_processes(command), at_least_one(command, "--limit")
    out = environment.data_home / name
    if (out / "store.json").is_file() and not command.has("--overwrite"):
        print(f"{out} is there already{_limited(out)}; --overwrite builds it again")
        return EXIT_OK
    from ..preparation.corpora.corpus import prepare_corpus

    prepare_corpus(
        name,
        source,
        out,
        processes=processes,
        limit=limit,
        flac=command.has(FLAC.long),
        overwrite=command.has("--overwrite"),
        skip_broken=command.has("--skip-broken"),
    )
    print(f"{written(command, out)}; {_presets(name)}")
    return EXIT_OK


def _limited(out: Path) -> str:
    """What a store lacks that was made for a try."""
    from ..data.strict_json import read_json_object

    limit = read_json_object(out / "store.json").get("limit")
    return f" ({counted(limit, 'song')} of each split)" if limit else ""


def _presets(store: str) -> str:
    """The presets that open a store, for ``-d``."""
    from ..config.presets import SINGLE_PRESETS

    names = [preset.name for preset in SINGLE_PRESETS.values() if preset.store == store]
    return f"use it with -d {', '.join(names or [store])}"
