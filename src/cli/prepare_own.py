"""``prepare.py folder``, ``manifest`` and ``midi``: data sets of files of one's own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.environment import Environment
from ..config.names import counted
from .command import EXIT_OK
from .parser import CommandLine, Option, UsageError, format_help
from .prepare_common import FLAC, HELP, ONE_PER_CORE, PROCESSES, QUOTES, read_processes, written

if TYPE_CHECKING:
    from ..preparation.write import PreparationReport, StoreSettings

_NAME = Option("--name", "name of the data set, used as -d NAME; or the second word", group="options")
_SPLITTING = (
    Option(
        "--validation-share", "share of the songs for validation", kind="float", metavar="P", group="options"
    ),
    Option("--test-share", "share of the songs for the test", kind="float", metavar="P", group="options"),
)
_FIRST = "by default the first from 0 on that gives every split a song"
_SEED = Option("--seed", f"seed of the split; {_FIRST}", kind="int", group="options")
_PROGRAM = Option(
    "--program",
    "program of all pitched notes, whatever the files say (100: lead voice); 128 makes all notes drums",
    kind="int",
    group="options",
)
_LICENCE = Option(
    "--licence", "licence of the recordings, noted in the data set", metavar="TEXT", group="options"
)
_WRITING = (
    PROCESSES,
    FLAC,
    Option("--overwrite", "replace a data set of that name", kind="switch", group="options"),
)

FOLDER_OPTIONS = (
    HELP,
    _NAME,
    Option(
        "--stems", "each folder of audio is one song, its files are the stems", kind="switch", group="options"
    ),
    _PROGRAM,
    Option("--label-shift", "added to the times of all notes", kind="float", metavar="MS", group="options"),
    *_SPLITTING,
    _SEED,
    _LICENCE,
    Option("--octave-unknown", "the octave of the notes is not reliable", kind="switch", group="options"),
    *_WRITING,
)
MANIFEST_OPTIONS = (HELP, _NAME, *_SPLITTING, _SEED, *_WRITING)
MIDI_OPTIONS = (
    HELP,
    _NAME,
    _PROGRAM,
    *_SPLITTING,
    Option("--seed", f"seed of the split and of the singers; {_FIRST}", kind="int", group="options"),
    _LICENCE,
    *_WRITING,
)
FOLDER_DEFAULTS = {"--validation-share": "0.1", "--test-share": "0.1"}
_DEFAULTS = {**FOLDER_DEFAULTS, PROCESSES.long: ONE_PER_CORE}


@dataclass(frozen=True)
class OwnCommand:
    """A command that makes a data set of the user's files."""

    name: str
    source: str
    """What it reads, in usage and messages."""
    intro: str
    options: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """How it is called."""
        return f"prepare.py {self.name} {self.source} NAME [options]"


OWN_COMMANDS = {
    command.name: command
    for command in (
        OwnCommand(
            "folder",
            "FOLDER",
            "Make a data set from a folder of songs: song.wav (or another audio file) beside song.mid.",
            FOLDER_OPTIONS,
        ),
        OwnCommand(
            "manifest",
            "FILE",
            "Make a data set from a list of songs with their files, in CSV or JSON; docs/data.md says how.",
            MANIFEST_OPTIONS,
        ),
        OwnCommand(
            "midi",
            "FOLDER",
            "Make a data set from MIDI files alone: each instrument is played on this machine, as a stem of "
            "its own; voices (programs 100 and 101) are sung. No download.",
            MIDI_OPTIONS,
        ),
    )
}


def run_own(own: OwnCommand, command: CommandLine, environment: Environment) -> int:
    """Run one of ``OWN_COMMANDS`` and return the exit code."""
    if command.has("--help"):
        print(format_help(own.usage, own.intro, own.options, _DEFAULTS, ("options",)), end="")
        return EXIT_OK
    source, name = _words(own, command)
    settings, facts = _settings(command), _facts(command)
    out = environment.data_home / name
    if own.name == "folder":
        from ..preparation.generic import prepare_folder

        report = prepare_folder(source, out, name, settings, **facts)
    elif own.name == "manifest":
        from ..preparation.manifest import prepare_manifest

        report = prepare_manifest(source, out, name, settings)
    else:
        from ..preparation.render_midi import prepare_midi
        from ..quickstart.instruments import play

        report = prepare_midi(source, out, name, play, settings, **facts)
    songs = report.splits
    missing = [split for split in ("train", "validation") if not songs.get(split)]
    hint = f"train on it with -d {shlex.quote(name)}"
    if missing:
        hint = f"a run with -d {shlex.quote(name)} alone needs songs for {' and '.join(missing)} first"
    print(f"{written(command, out)}{_left_out(report)}; {hint}")
    return EXIT_OK


def _left_out(report: PreparationReport) -> str:
    """How much did not become a part of the data set, as a part of a sentence; "" where all did."""
    songs, broken = sum(report.splits.values()) + len(report.broken), len(report.broken)
    parts = [f"{broken} of {counted(songs, 'song')} left out"] if broken else []
    if report.unpaired:
        parts.append(f"{counted(len(report.unpaired), 'file')} without a partner")
    return "".join(f"; {part}" for part in parts)


def _words(own: OwnCommand, command: CommandLine) -> tuple[Path, str]:
    """What is read, and the name of the data set."""
    words = list(command.words)
    if command.has("--name"):
        words.insert(1, str(command.get("--name", "")))
    if len(words) == 1:
        raise UsageError(f"{own.name} needs a name for -d as its second word (or --name NAME): {own.usage}")
    if len(words) != 2:
        needs = f"{own.name} needs one {own.source.lower()} and a name: {own.usage}"
        raise UsageError(f"{needs}{QUOTES if len(words) > 2 else ''}")
    source, name = Path(words[0]), words[1]
    if Path(name).name != name or name in (".", ".."):
        raise UsageError(f"the name {name!r} must be a plain name, without folders")
    if own.source == "FOLDER" and not source.is_dir():
        raise UsageError(f"{source} is no folder")
    if own.source == "FILE" and not source.is_file():
        raise UsageError(f"{source} is no file")
    return source, name


def _settings(command: CommandLine) -> StoreSettings:
    from ..data.shares import Shares
    from ..preparation.write import StoreSettings

    seed = int(command.get("--seed", 0)) if command.has("--seed") else None
    return StoreSettings(
        Shares(_share(command, "--validation-share"), _share(command, "--test-share"), seed),
        flac=command.has(FLAC.long),
        overwrite=command.has("--overwrite"),
        processes=read_processes(command),
    )


def _share(command: CommandLine, option: str) -> float:
    share = float(command.get(option, float(FOLDER_DEFAULTS[option])))
    if not 0 <= share < 1:
        raise UsageError(f"{option} must lie between 0 and 1, not {share}")
    return share


def _facts(command: CommandLine) -> dict[str, Any]:
    """What the command line says of the songs, as arguments of the preparing function."""
    facts: dict[str, Any] = {}
    for switch in ("--stems", "--octave-unknown"):
        if command.has(switch):
            facts[switch.lstrip("-").replace("-", "_")] = True
    if command.has("--licence"):
        facts["licence"] = str(command.get("--licence", ""))
    if command.has("--label-shift"):
        facts["label_shift_ms"] = float(command.get("--label-shift", 0.0))
    if command.has("--program"):
        facts["program"] = int(command.get("--program", 0))
    return facts
