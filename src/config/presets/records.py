"""What a data preset is: which store, which splits, in which shares, scored by which vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
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
    eval_drum_vocab: str | None = None
    """Classes of drum hits, a name of ``get_drum_vocab``; None takes those of the task's drum tokens."""
    octave_free: tuple[str, ...] = ()
    """Classes of ``eval_vocab`` that are also scored by pitch class, octaves aside."""
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
    eval_drum_vocab: tuple[str | None, ...] = ()
    """Drum vocabulary of each preset; None takes the preset's own. Empty: None for all."""
    validation_files: tuple[int, ...] = ()
    """Each preset is validated on the first N songs of its sets; 0 takes all. Empty: 0 for all."""

    def __post_init__(self) -> None:
        count = len(self.presets)
        object.__setattr__(self, "eval_drum_vocab", self.eval_drum_vocab or (None,) * count)
        object.__setattr__(self, "validation_files", self.validation_files or (0,) * count)
        lengths: tuple[int, ...] = (count, len(self.weights), len(self.eval_vocab))
        further = (len(self.eval_drum_vocab), len(self.validation_files))
        if set(further) != {count}:
            lengths = (*lengths, *further)
        if len(set(lengths)) != 1 or not self.presets:
            raise ValueError(
                f"data preset {self.name!r}: presets, weights and eval_vocab must have equal lengths, "
                f"at least 1, not {lengths}"
            )
        if any(not weight >= 0 for weight in self.weights) or not 0 < sum(self.weights) < float("inf"):
            raise ValueError(f"data preset {self.name!r}: weights must be 0 or more and one of them positive")

    def only(self, kept: Sequence[int]) -> MultiPreset:
        """The members with these numbers, all lists filtered together."""
        return MultiPreset(
            self.name,
            tuple(self.presets[i] for i in kept),
            tuple(self.weights[i] for i in kept),
            tuple(self.eval_vocab[i] for i in kept),
            tuple(self.eval_drum_vocab[i] for i in kept),
            tuple(self.validation_files[i] for i in kept),
        )


def preset(
    name: str,
    store: str,
    train: str | tuple[str, ...] = (),
    validation: str = "",
    test: str = "",
    *,
    vocab: str | None = None,
    drums: str | None = None,
    octave_free: tuple[str, ...] = (),
) -> SinglePreset:
    """A row of a family's table: one set each for validation and test, named after the store.

    Args:
        name: key of the table.
        store: folder of the store.
        train: split or splits to train on; empty for evaluation only.
        validation: split to validate on; empty for none.
        test: split to test on; empty for none.
        vocab: ``eval_vocab`` of the preset.
        drums: ``eval_drum_vocab`` of the preset.
        octave_free: as in :class:`SinglePreset`.
    """
    splits = (train,) if isinstance(train, str) else train
    return SinglePreset(
        name,
        store,
        tuple(split for split in splits if split),
        (EvaluationSet(store, validation),) if validation else (),
        (EvaluationSet(store, test),) if test else (),
        vocab,
        drums,
        octave_free,
        prepare=f"amt-prepare {store} FOLDER; from YourMT3, amt-prepare import-yourmt3 FOLDER --only {store}",
    )
