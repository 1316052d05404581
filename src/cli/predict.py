"""``predict.py``: transcribe audio files with the model of a checkpoint.

The model's configuration comes from the checkpoint. Flags of ``train.py`` are accepted, so that old
command lines run: equal values are silent, a contradiction of model or tokens is an error, and flags of
training are named once and ignored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..config.environment import read_environment
from ..config.experiment import Experiment
from ..config.inference import DECODE_PRECISIONS
from ..config.training import OPTIMIZERS
from .command import EXIT_OK, run_command, warn
from .options import OPTIONS
from .parser import CommandLine, Given, Option, UsageError, format_help, parse
from .precedence import contradictions, said, stored_experiment
from .published import UNAVAILABLE

FORMATS = ("mid", "png", "wav", "json", "csv")
"""Names of ``inference.predict.WRITERS``, which is not loaded for ``--help``."""

PREDICT_OPTIONS: tuple[Option, ...] = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option("--project", "project of exp@checkpoint; without it all are searched", "-p", group="options"),
    Option(
        "--output",
        "folder for what is written; else beside each input",
        "-o",
        metavar="FOLDER",
        group="options",
    ),
    Option(
        "--format",
        "what to write; wav is the transcription played by a simple synthesizer, midi another word for mid",
        count=0,
        choices=(*FORMATS, "midi"),
        metavar="NAME ...",
        group="options",
    ),
    Option(
        "--reference",
        "MIDI file of the true notes, drawn beside the estimate and scored; default: a MIDI file of the same "
        "name beside the audio, if there is one",
        metavar="MIDI",
        group="options",
    ),
    Option("--device", "where to compute: auto, cpu, cuda or cuda:N", group="options"),
    Option(
        "--batch-size",
        "windows decoded together; the checkpoint's test size if not given",
        kind="int",
        group="options",
    ),
    Option(
        "--overlap",
        "share of a window that the next one hears again (0 to 0.9); the checkpoint's if not given",
        kind="float",
        group="options",
    ),
    Option(
        "--subtask",
        "what to transcribe when the task has sub-tasks (singing_v1: default, singing-only; singing_drum_v1: "
        "also drum-only); the first if not given; none writes no task tokens, for models trained without",
        metavar="NAME",
        group="options",
    ),
    Option(
        "--constrain",
        "write only token sequences that are well formed, so that nothing has to be dropped",
        kind="switch",
        group="options",
    ),
    Option(
        "--instruments",
        "write only these: names of the task's classes (Piano, Bass, ...), Drums, or program numbers 0 to "
        "127; implies --constrain",
        count=0,
        metavar="NAME ...",
        group="options",
    ),
    Option(
        "--start-from-ties",
        "a note said to sound on from before its window, but missing there, starts at the window; else it is "
        "left out",
        kind="switch",
        group="options",
    ),
    Option(
        "--decode-precision",
        "numbers of the decoder's matrices; auto is bf16 on a GPU and 32 on a CPU, int8 is for CPUs",
        choices=DECODE_PRECISIONS,
        metavar="NAME",
        group="options",
    ),
)
PREDICT_DEFAULTS = {"--format": "mid png", "--device": "auto", "--decode-precision": "auto"}

_TAKEN = {name for option in PREDICT_OPTIONS for name in option.names}
_TRAIN_OPTIONS = tuple(
    replace(option, short="") if option.short in _TAKEN else option
    for option in OPTIONS
    if option.long not in _TAKEN
)
_COMPARED = ("task", "event_length", "audio.", "model.")
"""Leaves that make the model and its tokens."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``predict.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, (*PREDICT_OPTIONS, *_TRAIN_OPTIONS), UNAVAILABLE)
    if command.has("--help"):
        print(
            format_help(
                "predict.py EXP[@CHECKPOINT] AUDIO ... [options]",
                "Transcribe audio files with the model of a checkpoint: exp, exp@last.ckpt, or the path of a "
                "file. Flags of train.py are accepted and compared with the checkpoint.",
                PREDICT_OPTIONS,
                PREDICT_DEFAULTS,
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) < 2:
        raise UsageError("predict.py needs a checkpoint and audio files: predict.py exp@last.ckpt song.wav")
    spec, inputs = command.words[0], [Path(word) for word in command.words[1:]]
    out = str(command.get("--output", ""))
    if out.lower() in {name.lower() for name in OPTIMIZERS}:
        raise UsageError(f"-o {out}: here -o is the folder of the outputs; leave it out, or write ./{out}")
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    project = str(command.get("--project", "")) or None
    _compare(spec, command, environment.log_dir, project)
    from ..inference import DecodingChoices, run_predict

    formats = command.given["--format"].values if command.has("--format") else ("mid", "png")
    reference = str(command.get("--reference", ""))
    instruments = command.given["--instruments"].values if command.has("--instruments") else ()
    choices = DecodingChoices(
        batch_size=int(command.get("--batch-size", 0)) if command.has("--batch-size") else None,
        overlap=float(command.get("--overlap", 0.0)) if command.has("--overlap") else None,
        subtask=str(command.get("--subtask", "")) or None,
        constrain=command.has("--constrain"),
        instruments=tuple(str(name) for name in instruments),
        start_from_ties=command.has("--start-from-ties"),
        precision=str(command.get("--decode-precision", "auto")),
    )
    return run_predict(
        spec,
        inputs,
        out=Path(out) if out else None,
        project=project,
        log_dir=environment.log_dir,
        device=str(command.get("--device", "auto")),
        choices=choices,
        formats=tuple(dict.fromkeys("mid" if name == "midi" else str(name) for name in formats)),
        reference=Path(reference) if reference else None,
    )


def _compare(spec: str, command: CommandLine, log_dir: Path, project: str | None) -> None:
    """Hold flags of ``train.py`` against the run's configuration; see the module's first lines."""
    given = [item for item in command.given.values() if item.option in _TRAIN_OPTIONS]
    if not given:
        return
    model = [item for item in given if any(leaf.startswith(_COMPARED) for leaf in _leaves(item))]
    training = [item.name for item in given if item not in model]
    if training:
        print(f"flags of training, ignored here: {' '.join(training)}", file=sys.stderr)
    if not model:
        return
    from ..inference.find import find_checkpoint

    checkpoint = find_checkpoint(spec, log_dir=log_dir, project=project)
    stored = stored_experiment(checkpoint)
    if stored is None:
        names = " ".join(item.name for item in model)
        warn(f"{checkpoint} says nothing of its configuration, so these are not compared: {names}")
        return
    wrong = contradictions(stored, model, _COMPARED)
    if wrong:
        raise UsageError(f"the checkpoint has other values: {'; '.join(wrong)}. Leave these flags out")


def _leaves(item: Given) -> Sequence[str]:
    """What a flag of ``train.py`` would set, whatever the encoder."""
    return item.option.targets or list(said(item, Experiment().model.encoder_type))


if __name__ == "__main__":
    sys.exit(main())
