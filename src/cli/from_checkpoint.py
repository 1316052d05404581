"""What the commands share that use a checkpoint: decoding, and flags of ``train.py`` held against it.

The configuration comes from the checkpoint. Flags of ``train.py`` are accepted, so that old command lines
run: equal values are silent, a contradiction of model or tokens is an error, and flags of training are named
once and ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.experiment import Experiment
from ..config.training import OPTIMIZERS
from .command import warn
from .options import OPTIONS
from .parser import CommandLine, Given, Option, UsageError
from .precedence import contradictions, said, stored_experiment

if TYPE_CHECKING:
    from ..inference import DecodingChoices

_COMPARED = ("task", "event_length", "audio.", "model.")
"""Leaves that make the model and its tokens."""


def train_options(own: Iterable[Option]) -> tuple[Option, ...]:
    """The options of ``train.py`` that a command with options of its own accepts as well."""
    taken = {name for option in own for name in option.names}
    return tuple(
        replace(option, short="") if option.short in taken else option
        for option in OPTIONS
        if option.long not in taken
    )


def output_folder(command: CommandLine) -> Path | None:
    """The folder of ``-o``, which is an optimizer in old command lines; None when it was not given."""
    out = str(command.get("--output", ""))
    if out.lower() in {name.lower() for name in OPTIMIZERS}:
        raise UsageError(f"-o {out}: here -o is the folder of the outputs; leave it out, or write ./{out}")
    return Path(out) if out else None


def given_program(command: CommandLine, name: str) -> int | None:
    """The instrument (0 to 127) that a flag says pitched notes have; None when it was not given."""
    if not command.has(name):
        return None
    program = int(command.get(name, 0))
    if not 0 <= program <= 127:
        raise UsageError(f"{name} must be 0 to 127, is {program}")
    return program


def decoding_choices(command: CommandLine) -> DecodingChoices:
    """What ``DECODING_OPTIONS`` say about decoding; loads no torch."""
    from ..inference import DecodingChoices

    instruments = command.given["--instruments"].values if command.has("--instruments") else ()
    return DecodingChoices(
        batch_size=int(command.get("--batch-size", 0)) if command.has("--batch-size") else None,
        overlap=float(command.get("--overlap", 0.0)) if command.has("--overlap") else None,
        subtask=str(command.get("--subtask", "")) or None,
        constrain=command.has("--constrain"),
        instruments=tuple(str(name) for name in instruments),
        start_from_ties=command.has("--start-from-ties"),
        precision=str(command.get("--decode-precision", "auto")),
        min_note_ms=float(command.get("--min-note-ms", 0.0)),
    )


def compare_with_checkpoint(spec: str, given: Sequence[Given], log_dir: Path, project: str | None) -> None:
    """Hold flags of ``train.py`` against the configuration of a checkpoint; see the module's first lines.

    Args:
        spec: the checkpoint as the user named it.
        given: the flags of ``train.py`` on the command line.
        log_dir: folder of the runs.
        project: project of the run; None searches all.

    Raises:
        UsageError: for a flag about model or tokens that the checkpoint contradicts.
    """
    model = [item for item in given if any(leaf.startswith(_COMPARED) for leaf in _leaves(item))]
    say_ignored([item.name for item in given if item not in model])
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


def say_ignored(names: Sequence[str]) -> None:
    """Name flags of training that have no effect here."""
    if names:
        print(f"flags of training, ignored here: {' '.join(names)}", file=sys.stderr)


def _leaves(item: Given) -> Sequence[str]:
    """What a flag of ``train.py`` would set, whatever the encoder."""
    return item.option.targets or list(said(item, Experiment().model.encoder_type))
