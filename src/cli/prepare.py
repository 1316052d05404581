"""``prepare.py``: build the quick-start data set, or data sets from files that are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.environment import Environment, read_environment
from ..preparation.corpora import CORPORA
from .command import EXIT_ERROR, EXIT_OK, run_command, warn
from .parser import CommandLine, Option, UsageError, format_help, parse
from .prepare_check import CHECK_OPTIONS, run_check
from .prepare_common import FLAC, HELP, ONE_PER_CORE, PROCESSES, QUOTES, read_processes, written
from .prepare_corpus import CORPUS_OPTIONS, corpora_help, run_corpus
from .prepare_list import LIST_OPTIONS, run_list
from .prepare_own import OWN_COMMANDS, run_own

QUICKSTART_OPTIONS = (
    HELP,
    Option(
        "--out",
        "folder to write; the default is quickstart in the data folder",
        metavar="PATH",
        group="options",
    ),
    Option("--minutes", "minutes of audio in the training split", kind="float", group="options"),
    Option("--seed", "seed of every random draw", kind="int", group="options"),
    PROCESSES,
    Option("--small", "a few short songs, for tests", kind="switch", group="options"),
    Option("--overwrite", "build again although it is there", kind="switch", group="options"),
)
QUICKSTART_DEFAULTS = {"--minutes": "60", "--seed": "2026", PROCESSES.long: "one per core, at most 8"}
"""What ``build_quickstart`` takes when nothing is said; shown in the help."""

IMPORT_OPTIONS = (
    HELP,
    Option("--only", "data sets to import; all by default", count=0, metavar="NAME", group="options"),
    PROCESSES,
    FLAC,
    Option("--skip-broken", "leave out songs with problems", kind="switch", group="options"),
    Option("--overwrite", "build data sets again that are there", kind="switch", group="options"),
)

COMMANDS = ("quickstart", *OWN_COMMANDS, "import-yourmt3", "check", "list", *CORPORA)

_USAGE = f"""usage: prepare.py COMMAND [options]

  quickstart          make the quick-start data set on this machine
  folder FOLDER NAME  a folder of audio files and MIDI files of the same name, or of stems
  manifest FILE NAME  a list of songs with their files, CSV or JSON
  midi FOLDER NAME    MIDI files alone, played on this machine
  import-yourmt3 DIR  the published folders of YourMT3: yourmt3_indexes beside *_yourmt3_16k
  check NAME          look for what spoils training in data that is prepared
  list                the data sets that are prepared, and presets

data sets as they are published, each made by prepare.py NAME FOLDER:

{corpora_help()}
prepare.py COMMAND --help shows the options of each. Data sets are written to the data folder
(AMT_DATA_HOME; else data/ of the checkout, without a checkout ./data).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``prepare.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return EXIT_OK if argv else EXIT_ERROR
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    name, rest = argv[0], argv[1:]
    if name == "quickstart":
        return _quickstart(parse(rest, QUICKSTART_OPTIONS), environment)
    if name in OWN_COMMANDS:
        own = OWN_COMMANDS[name]
        return run_own(own, parse(rest, own.options), environment)
    if name == "check":
        return run_check(parse(rest, CHECK_OPTIONS), environment)
    if name == "list":
        return run_list(parse(rest, LIST_OPTIONS), environment)
    if name == "import-yourmt3":
        return _import(parse(rest, IMPORT_OPTIONS), environment)
    if name in CORPORA:
        return run_corpus(name, parse(rest, CORPUS_OPTIONS), environment)
    raise UsageError(f"unknown command {name!r}; known: {', '.join(COMMANDS)}")


def _quickstart(command: CommandLine, environment: Environment) -> int:
    if command.has("--help"):
        print(
            format_help(
                "prepare.py quickstart [options]",
                "Make the quick-start data set: real tunes, rendered on this machine; no download.",
                QUICKSTART_OPTIONS,
                QUICKSTART_DEFAULTS,
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    if command.words:
        raise UsageError(
            f"quickstart takes no word like {command.words[0]!r}; a folder is given by --out PATH"
        )
    settings: dict[str, float | int] = {}
    if command.has("--minutes"):
        settings["minutes"] = float(command.get("--minutes", 0.0))
        if settings["minutes"] <= 0:
            raise UsageError(f"--minutes must be positive, not {settings['minutes']}")
    if command.has("--seed"):
        settings["seed"] = int(command.get("--seed", 0))
    processes = read_processes(command)
    if processes is not None:
        settings["processes"] = processes
    out = Path(str(command.get("--out", str(environment.data_home / "quickstart")))).absolute()
    if (out / "store.json").is_file() and not command.has("--overwrite"):
        print(f"{out} is there already; --overwrite builds it again")
        return EXIT_OK
    from ..quickstart.build import build_quickstart

    build_quickstart(out, progress=True, small=command.has("--small"), **settings)  # type: ignore[arg-type]
    print(written(command, out))
    return EXIT_OK


def _import(command: CommandLine, environment: Environment) -> int:
    if command.has("--help"):
        print(
            format_help(
                "prepare.py import-yourmt3 DIR [options]",
                "Make data sets of the published folders of YourMT3, one per data set and under its name.",
                IMPORT_OPTIONS,
                {PROCESSES.long: ONE_PER_CORE},
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) != 1:
        needs = "import-yourmt3 needs the folder that holds yourmt3_indexes: import-yourmt3 DIR"
        raise UsageError(f"{needs}{QUOTES if command.words else ''}")
    source = Path(command.words[0])
    if not source.is_dir():
        raise UsageError(f"{source} is no folder")
    from ..preparation.import_yourmt3 import import_yourmt3

    only = tuple(str(name) for name in command.given["--only"].values) if command.has("--only") else ()
    report = import_yourmt3(
        source,
        environment.data_home,
        only=only,
        processes=read_processes(command),
        flac=command.has(FLAC.long),
        overwrite=command.has("--overwrite"),
        skip_broken=command.has("--skip-broken"),
    )
    for place, reason in list(report.skipped.items())[:20]:
        warn(f"left out: {place}: {reason}")
    names = ", ".join([*report.stores, *report.there])
    print(f"data sets in {environment.data_home}: {names}; use -d PRESET")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
