"""``predict.py``: transcribe audio files with the model of a checkpoint.

The model's configuration comes from the checkpoint. Flags of ``train.py`` are accepted, so that old
command lines run: equal values are silent, a contradiction of model or tokens is an error, and flags of
training are named once and ignored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.environment import read_environment
from .command import EXIT_OK, run_command, warn
from .from_checkpoint import (
    compare_with_checkpoint,
    decoding_choices,
    given_program,
    output_folder,
    train_options,
)
from .options_command import DECODING_DEFAULTS, DECODING_OPTIONS
from .parser import CommandLine, Option, UsageError, format_help, parse
from .published import UNAVAILABLE

FORMATS = ("mid", "parts", "png", "wav", "json", "jsonl", "csv")
"""Names of ``inference.outputs.WRITERS``, which is not loaded for ``--help``."""
FORMAT_OPTION = Option(
    "--format",
    "what to write; midi is another word for mid, parts is one MIDI file per instrument, wav the "
    "transcription played by a simple synthesizer, jsonl a JSON object per line",
    count=0,
    choices=(*FORMATS, "midi"),
    metavar="NAME ...",
    group="options",
)

PREDICT_OPTIONS: tuple[Option, ...] = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option(
        "--output",
        "folder for what is written, else it lies beside each input; - is standard output, for one song and "
        "format, or songs as jsonl, each note as soon as it is final",
        "-o",
        metavar="FOLDER",
        group="options",
    ),
    FORMAT_OPTION,
    Option(
        "--reference",
        "MIDI file of the true notes, drawn beside the estimate and scored; default: a MIDI file of the same "
        "name beside the audio, if there is one",
        metavar="MIDI",
        group="options",
    ),
    Option(
        "--reference-program",
        "0 to 127: all pitched notes of the references are of this program (100 is a lead voice), for MIDI "
        "files that do not say it",
        kind="int",
        metavar="N",
        group="options",
    ),
    *DECODING_OPTIONS,
)
PREDICT_DEFAULTS = {"--format": "mid", **DECODING_DEFAULTS}

_TRAIN_OPTIONS = train_options(PREDICT_OPTIONS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``predict.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, (*PREDICT_OPTIONS, *_TRAIN_OPTIONS), UNAVAILABLE)
    if command.has("--help"):
        print(
            format_help(
                "predict.py EXP[@CHECKPOINT] AUDIO ... [options]",
                "Transcribe audio files with the model of a checkpoint: exp, exp@last, exp@best, or the path "
                "of a file. Flags of train.py are accepted and compared with the checkpoint. Exit status: 0 "
                "all files done, 1 some could not be read, 2 nothing could begin.",
                PREDICT_OPTIONS,
                PREDICT_DEFAULTS,
                ("options", "decoding"),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) < 2:
        raise UsageError("predict.py needs a checkpoint and audio files: predict.py exp@last.ckpt song.wav")
    spec, inputs = command.words[0], [Path(word) for word in command.words[1:]]
    from ..audio import looks_like_audio

    if looks_like_audio(spec):
        raise UsageError(f"{spec} is no checkpoint, which comes first: predict.py exp@last song.wav")
    to_stdout = command.get("--output", "") == "-"
    out = None if to_stdout else output_folder(command)
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    project = str(command.get("--project", "")) or None
    given = [item for item in command.given.values() if item.option in _TRAIN_OPTIONS]
    compare_with_checkpoint(spec, given, environment.log_dir, project)
    reference_program = given_program(command, "--reference-program")
    from ..inference import run_predict

    reference = str(command.get("--reference", ""))
    return run_predict(
        spec,
        inputs,
        out=out,
        to_stdout=to_stdout,
        project=project,
        log_dir=environment.log_dir,
        device=str(command.get("--device", "auto")),
        choices=decoding_choices(command),
        formats=chosen_formats(command),
        reference=Path(reference) if reference else None,
        reference_program=reference_program,
    )


def chosen_formats(command: CommandLine) -> tuple[str, ...]:
    """The values of ``--format``, each once."""
    names = command.given["--format"].values if command.has("--format") else ("mid",)
    return tuple(dict.fromkeys("mid" if name == "midi" else str(name) for name in names))


if __name__ == "__main__":
    sys.exit(main())
