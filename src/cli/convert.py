"""``convert.py``: published checkpoints to ours and back; mean, mixture, weights alone; what a file is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config.environment import read_environment
from ..config.names import counted
from ..config.published_models import PUBLISHED_MODELS
from ..config.tasks import list_tasks
from .command import EXIT_ERROR, EXIT_OK, run_command, warn
from .parser import CommandLine, Option, UsageError, format_help, parse

_HELP = Option("--help", "show this text and exit", "-h", "switch", group="options")
_OVERWRITE = Option("--overwrite", "replace a file that is there", kind="switch", group="options")
_OUT = Option("--output", "file to write", "-o", metavar="FILE", group="options")
_LAYOUT = Option(
    "--layout",
    "published model it must be of the kind of",
    choices=tuple(PUBLISHED_MODELS),
    group="options",
)
_TASK = Option(
    "--task",
    "task it was trained for, when the file does not say it",
    "-tk",
    choices=tuple(list_tasks()),
    group="options",
)
_SEGMENT = Option(
    "--input-frames",
    "samples of its segments, when the file does not say it",
    "-if",
    kind="int",
    group="options",
)
_LICENCE = Option("--licence", "licence of the weights, noted in the file", metavar="TEXT", group="options")
_ALPHA = Option("--alpha", "share of B, from 0 to 1", kind="float", metavar="X", group="options")


@dataclass(frozen=True)
class _Command:
    """A form of the command line: its work and what ``--help`` says."""

    usage: str
    intro: str
    options: tuple[Option, ...]
    work: Callable[[CommandLine, str], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``convert.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in _HELP.names:
        print(_overview(), end="")
        return EXIT_OK if argv else EXIT_ERROR
    name, rest = (argv[0], argv[1:]) if argv[0] in COMMANDS else ("", argv)
    form = COMMANDS[name]
    command = parse(rest, form.options)
    if command.has("--help"):
        print(format_help(f"{form.usage} [options]", form.intro, form.options, {}, ("options",)), end="")
        return EXIT_OK
    return form.work(command, form.usage)


def _overview() -> str:
    lines = ["usage:"]
    for form in COMMANDS.values():
        lines += [f"  {form.usage}", f"      {form.intro.partition('. ')[0].rstrip('.')}"]
    lines += [
        "",
        "Each with --help shows its options. A checkpoint of ours may also be named exp@last, exp@best or",
        "exp@FILE.",
    ]
    lines += ['The first word of a command is its name: write "./info" for a file called info.', ""]
    return "\n".join(lines)


def _import(command: CommandLine, usage: str) -> int:
    source, target = _two(command, usage)
    from ..model.importing.convert import convert_checkpoint

    done = convert_checkpoint(
        Path(source),
        Path(target),
        layout=_text(command, "--layout"),
        task=_text(command, "--task"),
        segment_samples=int(command.get("--input-frames", 0)) or None,
        licence=str(command.get("--licence", "")),
        overwrite=command.has("--overwrite"),
        say=say,
    )
    for sentence in done.assumed:
        warn(sentence)
    if done.dropped:
        say(f"left out {counted(len(done.dropped), 'kernel')} of the pitch shifter")
    weights = counted(done.num_weights, "weight")
    print(f"{done.path} written: {weights}, {done.num_values / 1e6:.2f} million numbers")
    print(f"transcribe: predict.py {done.path} song.wav; fine-tune: train.py EXP --init-ckpt {done.path}")
    return EXIT_OK


def _export(command: CommandLine, usage: str) -> int:
    source, target = _two(command, usage)
    from ..model.importing.export import export_checkpoint

    done = export_checkpoint(
        find_source(source),
        Path(target),
        layout=_text(command, "--layout"),
        overwrite=command.has("--overwrite"),
        say=say,
    )
    for sentence in done.notes:
        warn(sentence)
    kind = f"as {done.layout}" if done.layout is not None else "of no published model, with published parts"
    weights, computed = counted(done.num_weights, "weight"), counted(done.num_computed, "computed tensor")
    print(f"{done.path} written {kind}: {weights} and {computed}")
    return EXIT_OK


def _average(command: CommandLine, usage: str) -> int:
    out = _out(command, usage)
    from ..model.checkpoint_tools import average_checkpoints

    count = average_checkpoints(
        [find_source(word) for word in command.words],
        out,
        overwrite=command.has("--overwrite"),
        say=say,
        progress=_Percent("averaged"),
    )
    print(
        f"{out} written: {counted(count, 'tensor')}, the mean of {counted(len(command.words), 'checkpoint')}"
    )
    return EXIT_OK


def _mix(command: CommandLine, usage: str) -> int:
    out = _out(command, usage)
    first, second = _two(command, usage)
    if not command.has("--alpha"):
        raise UsageError(f"--alpha X is missing, the share of the second checkpoint: {usage}")
    from ..model.checkpoint_tools import mix_checkpoints

    alpha = float(command.get("--alpha", 0.0))
    count = mix_checkpoints(
        find_source(first),
        find_source(second),
        alpha,
        out,
        overwrite=command.has("--overwrite"),
        say=say,
        progress=_Percent("mixed"),
    )
    print(f"{out} written: {counted(count, 'tensor')}, {1 - alpha:g} of {first} and {alpha:g} of {second}")
    return EXIT_OK


def _strip(command: CommandLine, usage: str) -> int:
    source, target = _two(command, usage)
    from ..model.checkpoint_info import size_text
    from ..model.checkpoint_tools import strip_checkpoint

    overwrite = command.has("--overwrite")
    before, after = strip_checkpoint(find_source(source), Path(target), overwrite=overwrite, say=say)
    print(f"{target} written: {size_text(after)} of {size_text(before)}")
    return EXIT_OK


def _info(command: CommandLine, usage: str) -> int:
    if not command.words:
        raise UsageError(f"a checkpoint is missing: {usage}")
    from ..model.checkpoint_info import describe_checkpoint

    status = EXIT_OK
    for number, word in enumerate(command.words):
        if number:
            print(flush=True)
        try:
            lines = describe_checkpoint(find_source(word))
        except ValueError as error:
            if len(command.words) == 1:
                raise
            print(f"error: {error}", file=sys.stderr, flush=True)
            status = EXIT_ERROR
            continue
        width = max(len(label) for label, _ in lines)
        for label, text in lines:
            print(f"{label:<{width}}  {text}")
    return status


COMMANDS = {
    "": _Command(
        "convert.py SRC DST",
        "A published YourMT3+ checkpoint to one of ours. Lightning files of a fork with its layout and plain "
        "state dicts go too. Nothing that is pickled in the file is run; every weight must find its place. "
        "The result works with predict.py and --init-ckpt.",
        (_HELP, _LAYOUT, _TASK, _SEGMENT, _LICENCE, _OVERWRITE),
        _import,
    ),
    "export": _Command(
        "convert.py export SRC DST",
        "A checkpoint of ours to a file the published code loads. Its state dict has the published names.",
        (_HELP, _LAYOUT, _OVERWRITE),
        _export,
    ),
    "average": _Command(
        "convert.py average A B ... -o OUT",
        "The mean of the weights of several checkpoints. They must be of one model.",
        (_HELP, _OUT, _OVERWRITE),
        _average,
    ),
    "mix": _Command(
        "convert.py mix A B --alpha X -o OUT",
        "A mixture of two checkpoints: (1 - X) of A and X of B. Between a model and the same after "
        "fine-tuning it forgets less than the second.",
        (_HELP, _ALPHA, _OUT, _OVERWRITE),
        _mix,
    ),
    "strip": _Command(
        "convert.py strip SRC DST",
        "The weights without the state of training. The file is about a third as large and cannot be "
        "resumed.",
        (_HELP, _OVERWRITE),
        _strip,
    ),
    "info": _Command(
        "convert.py info FILE ...",
        "What a file is: task, model, step, scores, size, licence. Of a broken one, what happened to it: "
        "empty, cut off, a Git LFS pointer, a web page.",
        (_HELP,),
        _info,
    ),
}
"""The forms by their first word; without one it is the first."""


class _Percent:
    """Progress on a terminal, one line that is written over."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._last = -1

    def __call__(self, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        if percent == self._last or not sys.stderr.isatty():
            return
        self._last = percent
        end = "\n" if done == total else ""
        print(f"\r{self._verb} {percent:3d} %", end=end, file=sys.stderr, flush=True)


def _two(command: CommandLine, usage: str) -> tuple[str, str]:
    if len(command.words) != 2:
        raise UsageError(f"two files are needed, not {len(command.words)}: {usage}")
    return command.words[0], command.words[1]


def _out(command: CommandLine, usage: str) -> Path:
    if not command.has("--output"):
        raise UsageError(f"-o OUT is missing, the file to write: {usage}")
    return Path(str(command.get("--output", "")))


def _text(command: CommandLine, long: str) -> str | None:
    return str(command.get(long, "")) if command.has(long) else None


def find_source(word: str) -> Path:
    """The file of a path or of ``exp@checkpoint``."""
    if os.path.lexists(word):
        return Path(word)
    from ..inference.find import find_checkpoint

    return find_checkpoint(word, log_dir=read_environment(os.environ).log_dir)


def say(sentence: str) -> None:
    """Tell the user what is going on."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
