"""``prepare.py``: build the quick-start data set, or a data set from a folder of audio and MIDI."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.environment import Environment, read_environment
from .command import EXIT_ERROR, EXIT_OK, run_command, warn
from .parser import CommandLine, Option, UsageError, format_help, parse

_HELP = Option("--help", "show this text and exit", "-h", "switch", group="options")

QUICKSTART_OPTIONS = (
    _HELP,
    Option(
        "--out",
        "folder to write; the default is quickstart in the data folder",
        metavar="PATH",
        group="options",
    ),
    Option("--minutes", "minutes of audio in the training split", kind="float", group="options"),
    Option("--seed", "seed of every random draw", kind="int", group="options"),
    Option("--processes", "processes that parse and render", kind="int", group="options"),
    Option("--small", "a few short songs, for tests", kind="switch", group="options"),
    Option("--overwrite", "build again although it is there", kind="switch", group="options"),
)
QUICKSTART_DEFAULTS = {"--minutes": "60", "--seed": "2026", "--processes": "one per core, at most 8"}
"""What ``build_quickstart`` takes when nothing is said; shown in the help."""

FOLDER_OPTIONS = (
    _HELP,
    Option("--name", "name of the data set, used as -d NAME", group="options"),
    Option(
        "--validation-share", "share of the songs for validation", kind="float", metavar="P", group="options"
    ),
    Option("--test-share", "share of the songs for the test", kind="float", metavar="P", group="options"),
    Option("--seed", "seed of the split", kind="int", group="options"),
    Option("--licence", "licence of the recordings, noted in the data set", metavar="TEXT", group="options"),
    Option("--octave-unknown", "the octave of the notes is not reliable", kind="switch", group="options"),
    Option("--overwrite", "replace a data set of that name", kind="switch", group="options"),
)
FOLDER_DEFAULTS = {"--validation-share": "0.1", "--test-share": "0.1", "--seed": "0"}

IMPORT_OPTIONS = (
    _HELP,
    Option("--only", "data sets to import; all by default", count=0, metavar="NAME", group="options"),
    Option("--flac", "store FLAC: half the room, slower to read", kind="switch", group="options"),
    Option("--skip-broken", "leave out songs with problems", kind="switch", group="options"),
    Option("--overwrite", "build data sets again that are there", kind="switch", group="options"),
)

COMMANDS = ("quickstart", "folder", "import-yourmt3")

_USAGE = """usage: prepare.py COMMAND [options]

  quickstart          make the quick-start data set on this machine
  folder SRC          a folder of audio files and MIDI files of the same name
  import-yourmt3 DIR  the published folders of YourMT3: yourmt3_indexes beside *_yourmt3_16k

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
    if name == "folder":
        return _folder(parse(rest, FOLDER_OPTIONS), environment)
    if name == "import-yourmt3":
        return _import(parse(rest, IMPORT_OPTIONS), environment)
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
    for name in ("--seed", "--processes"):
        if command.has(name):
            settings[name.lstrip("-")] = int(command.get(name, 0))
    for name in ("minutes", "processes"):
        if settings.get(name, 1) <= 0:
            raise UsageError(f"--{name} must be positive, not {settings[name]}")
    out = Path(str(command.get("--out", str(environment.data_home / "quickstart")))).absolute()
    if (out / "store.json").is_file() and not command.has("--overwrite"):
        print(f"{out} is there already; --overwrite builds it again")
        return EXIT_OK
    from ..quickstart.build import build_quickstart

    build_quickstart(out, progress=True, small=command.has("--small"), **settings)  # type: ignore[arg-type]
    print(f"data set written to {out}")
    return EXIT_OK


def _folder(command: CommandLine, environment: Environment) -> int:
    if command.has("--help"):
        print(
            format_help(
                "prepare.py folder SRC --name NAME [options]",
                "Make a data set from a folder of songs: song.wav (or another audio file) beside song.mid.",
                FOLDER_OPTIONS,
                FOLDER_DEFAULTS,
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) != 1:
        raise UsageError("folder needs one folder of audio and MIDI: prepare.py folder SRC --name NAME")
    if not command.has("--name"):
        raise UsageError("folder needs --name NAME, the name for -d")
    name = str(command.get("--name", ""))
    if Path(name).name != name or name in (".", ".."):
        raise UsageError(f"--name {name!r} must be a plain name, without folders")
    shares = {
        key: float(command.get(key, float(FOLDER_DEFAULTS[key])))
        for key in ("--validation-share", "--test-share")
    }
    for key, share in shares.items():
        if not 0 <= share < 1:
            raise UsageError(f"{key} must lie between 0 and 1, not {share}")
    source = Path(command.words[0])
    if not source.is_dir():
        raise UsageError(f"{source} is no folder")
    out = environment.data_home / name
    from ..preparation.generic import prepare_folder

    prepare_folder(
        source,
        out,
        name,
        validation_share=shares["--validation-share"],
        test_share=shares["--test-share"],
        seed=int(command.get("--seed", int(FOLDER_DEFAULTS["--seed"]))),
        licence=str(command.get("--licence", "")),
        octave_unknown=command.has("--octave-unknown"),
        overwrite=command.has("--overwrite"),
    )
    print(f"data set written to {out}; train on it with -d {name}")
    return EXIT_OK


def _import(command: CommandLine, environment: Environment) -> int:
    if command.has("--help"):
        print(
            format_help(
                "prepare.py import-yourmt3 DIR [options]",
                "Make data sets of the published folders of YourMT3, one per data set and under its name.",
                IMPORT_OPTIONS,
                {},
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) != 1:
        raise UsageError("import-yourmt3 needs the folder that holds yourmt3_indexes: import-yourmt3 DIR")
    source = Path(command.words[0])
    if not source.is_dir():
        raise UsageError(f"{source} is no folder")
    from ..preparation.import_yourmt3 import import_yourmt3

    only = tuple(str(name) for name in command.given["--only"].values) if command.has("--only") else ()
    report = import_yourmt3(
        source,
        environment.data_home,
        only=only,
        flac=command.has("--flac"),
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
