"""The objective's record: what it reads, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amt.config import Experiment, ModelConfig, ObjectiveConfig, tasks
from amt.config.objective import TOKEN_CLASSES
from amt.config.tasks import get_task
from amt.tokenizer import NoteTokenizer
from amt.training.objective import TERMS, build_objective

TOKENIZER = NoteTokenizer.from_task("mc13_fsingle", segment_samples=32767)


def built(**values: Any) -> Any:
    return build_objective(Experiment(objective=ObjectiveConfig(**values)), TOKENIZER)


def test_only_the_main_term_by_default() -> None:
    assert [(term.name, term.weight) for term in built().terms] == [("token_ce", 1.0)]


def test_weights_starts_and_ramps_reach_the_terms() -> None:
    objective = built(
        octave_weight=0.3,
        chroma_weight=0.2,
        blank_weight=0.1,
        onset_weight=0.05,
        boundary_weight=0.4,
        term_weights=("token_ce=0.5",),
        term_start=("octave=10", "onset=5"),
        term_ramp=("octave=20",),
    )
    found = {term.name: (term.weight, term.start, term.ramp) for term in objective.terms}
    assert found == {
        "token_ce": (0.5, 0, 0),
        "octave": (0.3, 10, 20),
        "chroma": (0.2, 0, 0),
        "blank": (0.1, 0, 0),
        "onset": (0.05, 5, 0),
        "boundary": (0.4, 0, 0),
    }


def test_every_weight_of_the_record_is_that_of_a_term() -> None:
    fields = {name for name in vars(ObjectiveConfig()) if name.endswith("_weight")}
    assert {name.removesuffix("_weight") for name in fields} == set(TERMS) - {"token_ce"}


def test_kinds_of_tokens_are_those_of_the_tokenizer() -> None:
    for kind in TOKEN_CLASSES:
        if kind != "eos":
            assert TOKENIZER.token_range(kind)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"octave_weight": -1.0}, "--octave-weight must not be negative"),
        ({"soft_shift_ms": -1.0}, "--soft-shift"),
        ({"boundary_width": 0}, "--boundary-width"),
        ({"octave_samples": "unknwon"}, "did you mean 'unknown'"),
        ({"label_smoothing": 1.0}, "--label-smoothing"),
        ({"hide_octaves": True}, "add --chroma-weight"),
        ({"hide_octaves": True, "octave_weight": 1.0, "octave_samples": "known"}, "add --chroma-weight"),
        ({"class_weights": ("pich=2",)}, "did you mean 'pitch'"),
        ({"class_weights": ("pitch",)}, "--class-weight expects NAME=NUMBER"),
        ({"class_weights": ("pitch=much",)}, "--class-weight pitch expects a number, not 'much'"),
        ({"class_weights": ("pitch=1", "pitch=2")}, "two numbers of pitch"),
        ({"class_weights": tuple(f"{kind}=0" for kind in TOKEN_CLASSES)}, "above 0"),
        ({"term_weights": ("octave=2",)}, "write --octave-weight 2"),
        ({"term_weights": ("token_ce=0",)}, "main term"),
        ({"term_start": ("token_ce=5",)}, "main term"),
        ({"term_start": ("octave=1.5",)}, "whole number"),
        ({"term_ramp": ("octave=-5",)}, "negative"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        ObjectiveConfig(**values)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"term_weights": ("loudness=1",)}, "--term-weight"),
        ({"term_start": ("octav=1",)}, "did you mean 'octave'"),
        ({"term_start": ("octave=1",)}, "--term-start octave: that term is off"),
        ({"term_ramp": ("chroma=1",)}, "--term-ramp chroma: that term is off"),
    ],
)
def test_terms_that_are_not_there_are_refused(values: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        built(**values)
    assert part in str(caught.value)


def test_drums_have_no_octave(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(get_task("mc13_fsingle"), name="only_drums", target_programs=())
    monkeypatch.setitem(tasks._TASKS, "only_drums", row)
    for name in ("octave_weight", "chroma_weight"):
        with pytest.raises(ValueError, match="only drums"):
            Experiment(task="only_drums", objective=ObjectiveConfig(**{name: 1.0}))
    assert Experiment(task="only_drums", objective=ObjectiveConfig(onset_weight=1.0)).task == "only_drums"


def test_json_form_returns_it_and_older_files_stay_valid() -> None:
    objective = ObjectiveConfig(
        octave_weight=0.5, octave_samples="unknown", class_weights=("pitch=2",), term_start=("octave=3",)
    )
    experiment = Experiment(model=ModelConfig(), objective=objective)
    assert Experiment.from_json(experiment.to_json()).objective == objective
    old = Experiment().to_dict()
    old["OBJECTIVE"] = {"frame_weight": 0.0, "frame_until": 0, "soft_shift_ms": 20.0}
    assert Experiment.from_dict(old).objective == ObjectiveConfig(soft_shift_ms=20.0)
