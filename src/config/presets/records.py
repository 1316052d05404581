"""What a data preset is: which store, which splits, in which shares, scored by which vocabulary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluationSet:
    """One set that is scored on its own."""

    name: str
    """Name in logs and tables."""
    split: str
    """Split of the preset's store."""


@dataclass(frozen=True)
class SinglePreset:
    """One data set (key of the single table)."""

    name: str
    """Key of the table (flag ``-d``)."""
    store: str
    """Folder of the store inside the data folder."""
    train: tuple[str, ...] = ("train",)
    """Splits trained on, joined in this order; empty: for evaluation only."""
    validation: tuple[EvaluationSet, ...] = ()
    """Sets scored during training."""
    test: tuple[EvaluationSet, ...] = ()
    """Sets scored by ``test.py``."""
    eval_vocab: str | None = None
    """Classes scored one by one, a name of ``get_program_vocab``; None takes the task's."""
    prepare: str = ""
    """The command that builds the store."""

    def __post_init__(self) -> None:
        if not (self.train or self.validation or self.test):
            raise ValueError(f"data preset {self.name!r} uses no split at all")
        for sets in (self.validation, self.test):
            names = [item.name for item in sets]
            if len(set(names)) != len(names):
                raise ValueError(f"data preset {self.name!r} has two evaluation sets of one name: {names}")

    @property
    def prepare_command(self) -> str:
        """The command that builds the store, for error messages."""
        return self.prepare or f"amt-prepare folder FOLDER_OF_AUDIO_AND_MIDI --name {self.store}"


@dataclass(frozen=True)
class MultiPreset:
    """Several presets mixed in given shares (key of the multi table)."""

    name: str
    """Key of the table (flag ``-d``)."""
    presets: tuple[str, ...]
    """Keys of single presets."""
    weights: tuple[float, ...]
    """Share of the training segments of each preset, up to a common factor."""
    eval_vocab: tuple[str | None, ...]
    """Evaluation vocabulary of each preset; None takes the preset's own."""

    def __post_init__(self) -> None:
        lengths = (len(self.presets), len(self.weights), len(self.eval_vocab))
        if len(set(lengths)) != 1 or not self.presets:
            raise ValueError(
                f"data preset {self.name!r}: presets, weights and eval_vocab must have equal lengths, "
                f"at least 1, not {lengths}"
            )
        if any(not weight >= 0 for weight in self.weights) or not 0 < sum(self.weights) < float("inf"):
            raise ValueError(f"data preset {self.name!r}: weights must be 0 or more and one of them positive")
