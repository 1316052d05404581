"""``predict_batch.py``: transcribe folders of audio files, resumed where it stopped.

Configuration and flags of ``train.py`` as for ``predict.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..config.environment import read_environment
from .command import EXIT_OK, run_command, warn
from .from_checkpoint import compare_with_checkpoint, decoding_choices, output_folder, train_options
from .options_command import DECODING_DEFAULTS, DECODING_OPTIONS
from .parser import Option, UsageError, format_help, parse
from .predict import FORMAT_OPTION, chosen_formats
from .published import UNAVAILABLE

BATCH_OPTIONS: tuple[Option, ...] = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option("--output", "folder of the outputs; it must be given", "-o", metavar="FOLDER", group="options"),
    FORMAT_OPTION,
    Option(
        "--processes",
        "processes on each device, among which the files are spread",
        kind="int",
        group="options",
    ),
    Option(
        "--again",
        "make everything anew: also what is finished, and what another checkpoint or other options made",
        kind="switch",
        group="options",
    ),
    *(
        replace(
            option,
            help="where to compute, one process each: auto (every GPU, or the CPU), cpu, cuda:0 cuda:1 ...",
            count=0,
            metavar="NAME ...",
        )
        if option.long == "--device"
        else option
        for option in DECODING_OPTIONS
    ),
)
BATCH_DEFAULTS = {"--format": "mid", "--processes": "1", **DECODING_DEFAULTS}

_TRAIN_OPTIONS = train_options(BATCH_OPTIONS)
_USAGE = "predict_batch.py EXP[@CHECKPOINT] FOLDER ... -o OUT [options]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``predict_batch.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, (*BATCH_OPTIONS, *_TRAIN_OPTIONS), UNAVAILABLE)
    if command.has("--help"):
        print(
            format_help(
                _USAGE,
                "Transcribe all audio files of folders into OUT, in the same sub-folders. Run again it goes "
                "on where it stopped. OUT/report.json and report.csv say what became of each file. Exit "
                "status: 0 all files done, 1 some could not be read, 2 nothing could begin, 130 interrupted.",
                BATCH_OPTIONS,
                BATCH_DEFAULTS,
                ("options", "decoding"),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) < 2:
        raise UsageError(f"predict_batch.py needs a checkpoint and a folder of audio files: {_USAGE}")
    spec, inputs = command.words[0], [Path(word) for word in command.words[1:]]
    out = output_folder(command)
    if out is None or out == Path("-"):
        raise UsageError(f"predict_batch.py needs a folder for its outputs: {_USAGE}")
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    project = str(command.get("--project", "")) or None
    given = [item for item in command.given.values() if item.option in _TRAIN_OPTIONS]
    compare_with_checkpoint(spec, given, environment.log_dir, project)
    from ..inference import run_batch

    devices = command.given["--device"].values if command.has("--device") else ("auto",)
    return run_batch(
        spec,
        inputs,
        out,
        project=project,
        log_dir=environment.log_dir,
        devices=tuple(str(name) for name in devices),
        processes=int(command.get("--processes", 1)),
        choices=decoding_choices(command),
        formats=chosen_formats(command),
        again=command.has("--again"),
    )


if __name__ == "__main__":
    sys.exit(main())
