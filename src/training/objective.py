"""The objective of an experiment: the table of terms, which of them it asks for, and what they read.

A new term is a file in ``losses/`` and a row of :data:`TERMS`; its weight is ``--term-weight NAME=W``
(``docs/extending.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ..config import Experiment, unknown_name
from ..losses import (
    LabelMask,
    NoteColumns,
    Objective,
    Term,
    blank_loss,
    boundary_loss,
    chroma_loss,
    float_scores,
    frame_loss,
    log_totals,
    octave_loss,
    onset_loss,
    token_cross_entropy,
    within,
)
from ..model import Encoded
from ..tokenizer import NoteTokenizer


@dataclass(frozen=True)
class Outputs:
    """What the terms of the objective read."""

    logits: Tensor
    """(B, C, N, V)."""
    labels: Tensor
    """(B, C, N) of :func:`label_mask`: PAD where nothing is to be learned."""
    frames: Tensor | None
    """(B, T, outputs of the frame head)."""
    notes: NoteColumns
    fully_annotated: Tensor | None = None
    """(B,) bool: False where a target instrument sounds without notes; None: true of all samples."""
    balance: Tensor | None = None
    """How evenly experts were used; None without experts."""
    octave_unknown: Tensor | None = None
    """(B,) bool: the octave of the sample's notes is not known; None: it is of all samples."""
    encoded: Encoded | None = None
    """The encoder's states, which the REINFORCE stage decodes once more."""

    @cached_property
    def scores(self) -> Tensor:
        """(B, C, N, V) the logits in float32, converted once for all terms."""
        return float_scores(self.logits)

    @cached_property
    def log_total(self) -> Tensor:
        """(B, C, N) logarithm of the sum of exp over the vocabulary, computed once for all terms."""
        return log_totals(self.scores)


Compute = Callable[[Outputs], Tensor | Mapping[str, Tensor]]


def label_mask(tokenizer: NoteTokenizer) -> LabelMask:
    """What the labels of a task teach."""
    passing = [tokenizer.token_range(kind) for kind in ("shift", "program", "tie")]
    passing.append(_eos(tokenizer))
    return LabelMask(tokenizer.pad_id, tokenizer.token_range("extra"), tuple(passing))


def _eos(tokenizer: NoteTokenizer) -> range:
    return range(tokenizer.eos_id, tokenizer.eos_id + 1)


def _token_ce(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    config = experiment.objective
    shifts, pitches = tokenizer.token_range("shift"), tokenizer.token_range("pitch")
    soft_steps = config.soft_shift_ms / 1000.0 / tokenizer.seconds_per_step
    weights = [
        (_eos(tokenizer) if kind == "eos" else tokenizer.token_range(kind), weight)
        for kind, weight in config.weight_of_class.items()
    ]

    def token_ce(outputs: Outputs) -> Tensor:
        labels = outputs.labels
        if config.hide_octaves and outputs.octave_unknown is not None:
            hidden = within(labels, pitches) & outputs.octave_unknown.view(-1, 1, 1)
            labels = labels.masked_fill(hidden, tokenizer.pad_id)
        return token_cross_entropy(
            outputs.scores,
            labels,
            pad_id=tokenizer.pad_id,
            shift_range=shifts,
            soft_shift_steps=soft_steps,
            label_smoothing=config.label_smoothing,
            class_weights=weights,
            log_total=outputs.log_total,
        )

    return token_ce


def _octave(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    pitches = tokenizer.token_range("pitch")
    which = experiment.objective.octave_samples

    def octave(outputs: Outputs) -> Tensor:
        samples = None
        if which != "all":
            assert outputs.octave_unknown is not None
            samples = outputs.octave_unknown if which == "unknown" else ~outputs.octave_unknown
        return octave_loss(
            outputs.scores, outputs.labels, pitches=pitches, samples=samples, log_total=outputs.log_total
        )

    return octave


def _chroma(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    pitches = tokenizer.token_range("pitch")
    return lambda outputs: chroma_loss(
        outputs.scores, outputs.labels, pitches=pitches, log_total=outputs.log_total
    )


def _blank(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    ties, eos_id, pad_id = tokenizer.token_range("tie"), tokenizer.eos_id, tokenizer.pad_id
    return lambda outputs: blank_loss(
        outputs.scores, outputs.labels, ties=ties, eos_id=eos_id, pad_id=pad_id, log_total=outputs.log_total
    )


def _onset(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    pitches, velocities = tokenizer.token_range("pitch"), tokenizer.token_range("velocity")
    drums = tokenizer.token_range("drum") if 128 in tokenizer.task.targets() else range(0)
    return lambda outputs: onset_loss(
        outputs.scores,
        outputs.labels,
        pitches=pitches,
        velocities=velocities,
        drums=drums,
        pad_id=tokenizer.pad_id,
        log_total=outputs.log_total,
    )


def _boundary(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    shifts, width = tokenizer.token_range("shift"), experiment.objective.boundary_width
    return lambda outputs: boundary_loss(
        outputs.scores, outputs.labels, shifts=shifts, width=width, log_total=outputs.log_total
    )


def _frame(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    groups = experiment.model.frame_groups
    seconds = experiment.model.seconds_per_memory_frame(experiment.audio)
    hidden = experiment.objective.hide_octaves

    def frame(outputs: Outputs) -> dict[str, Tensor]:
        assert outputs.frames is not None
        free = outputs.octave_unknown if hidden else None
        return frame_loss(outputs.frames, outputs.notes, groups, seconds, outputs.fully_annotated, free)

    return frame


def _moe_balance(experiment: Experiment, tokenizer: NoteTokenizer) -> Compute:
    def balance(outputs: Outputs) -> Tensor:
        assert outputs.balance is not None, "the network has experts and is in training mode"
        return outputs.balance

    return balance


TERMS: dict[str, Callable[[Experiment, NoteTokenizer], Compute]] = {
    "token_ce": _token_ce,
    "octave": _octave,
    "chroma": _chroma,
    "blank": _blank,
    "onset": _onset,
    "boundary": _boundary,
    "frame": _frame,
    "moe_balance": _moe_balance,
}
"""Name to what builds the term of an experiment, in the order of the sum."""


def build_objective(experiment: Experiment, tokenizer: NoteTokenizer) -> Objective[Outputs]:
    """The terms the experiment asks for.

    Raises:
        ValueError: it names a term that there is not, or a start or ramp for one that has no weight.
    """
    config = experiment.objective
    for flag, names in config.terms_said.items():
        for name in names:
            if name not in TERMS:
                raise unknown_name(f"term of {flag}", name, TERMS)
            if flag != "--term-weight" and config.weight_of(name) == 0:
                raise ValueError(f"{flag} {name}: that term is off; give it a weight, or leave this out")
    return Objective(
        [
            Term(
                name,
                build(experiment, tokenizer),
                config.weight_of(name),
                until=config.frame_until if name == "frame" else 0,
                start=config.start_of_term.get(name, 0),
                ramp=config.ramp_of_term.get(name, 0),
            )
            for name, build in TERMS.items()
            if config.weight_of(name) > 0
        ]
    )
