"""The objective of an experiment: which terms of the losses it asks for, and what they read."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..config import Experiment
from ..losses import LabelMask, NoteColumns, Objective, Term, frame_loss, token_cross_entropy
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


def label_mask(tokenizer: NoteTokenizer) -> LabelMask:
    """What the labels of a task teach."""
    passing = [tokenizer.token_range(kind) for kind in ("shift", "program", "tie")]
    passing.append(range(tokenizer.eos_id, tokenizer.eos_id + 1))
    return LabelMask(tokenizer.pad_id, tokenizer.token_range("extra"), tuple(passing))


def build_objective(experiment: Experiment, tokenizer: NoteTokenizer) -> Objective[Outputs]:
    """The terms the experiment asks for."""
    config = experiment.objective
    shift = tokenizer.token_range("shift")
    soft_steps = config.soft_shift_ms / 1000.0 / tokenizer.seconds_per_step
    seconds = experiment.model.seconds_per_memory_frame(experiment.audio)

    def token_ce(outputs: Outputs) -> Tensor:
        return token_cross_entropy(
            outputs.logits,
            outputs.labels,
            pad_id=tokenizer.pad_id,
            shift_range=shift,
            soft_shift_steps=soft_steps,
        )

    def frame(outputs: Outputs) -> dict[str, Tensor]:
        assert outputs.frames is not None
        return frame_loss(
            outputs.frames, outputs.notes, experiment.model.frame_groups, seconds, outputs.fully_annotated
        )

    def balance(outputs: Outputs) -> Tensor:
        assert outputs.balance is not None, "the network has experts and is in training mode"
        return outputs.balance

    terms: list[Term[Outputs]] = [Term("token_ce", token_ce)]
    if config.frame_weight > 0:
        terms.append(Term("frame", frame, config.frame_weight, config.frame_until))
    if config.moe_balance_weight > 0:
        terms.append(Term("moe_balance", balance, config.moe_balance_weight))
    return Objective(terms)
