"""The quick-start data set, made on the user's own machine."""

from __future__ import annotations

from .records import EvaluationSet, MultiPreset, SinglePreset

SINGLE: tuple[SinglePreset, ...] = (
    SinglePreset(
        name="quickstart",
        store="quickstart",
        train=("train",),
        validation=(
            EvaluationSet("quickstart", "validation"),
            EvaluationSet("quickstart_hard", "validation_hard"),
        ),
        test=(
            EvaluationSet("quickstart_standard", "test_standard"),
            EvaluationSet("quickstart_hard", "test_hard"),
        ),
        prepare="amt-prepare quickstart",
    ),
)

MULTI: tuple[MultiPreset, ...] = ()
