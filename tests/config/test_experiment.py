"""The one record of a run and its JSON form."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amt.config
from amt.config import AudioConfig, BatchSizes, Experiment, max_shift_steps, nearest, unknown_name
from amt.config.experiment import FORMAT
from amt.config.names import counted


def test_json_form_returns_the_record() -> None:
    experiment = Experiment(
        exp_id="é exp",
        audio=AudioConfig(codec="melspec", segment_samples=24000, hop_length=300),
        bsz=BatchSizes(2, 4, 8, 16),
    )
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_sections_are_in_capitals_and_the_format_is_named() -> None:
    plain = Experiment().to_dict()
    assert plain["format"] == FORMAT
    for section in ("BSZ", "DATAIO", "AUGMENTATION", "CHECKPOINT", "TRAINER", "WANDB", "LR_SCHEDULE"):
        assert isinstance(plain[section], dict)
    assert json.loads(Experiment().to_json()) == json.loads(json.dumps(plain))


def test_missing_values_take_their_defaults() -> None:
    assert Experiment.from_dict({"format": 1, "exp_id": "x"}) == Experiment(exp_id="x")


@pytest.mark.parametrize(
    ("plain", "part"),
    [
        ({"format": FORMAT + 1}, "update amt"),
        ({"TRAINER": {"max_step": 5}}, "max_steps"),
        ({"TRAINER": 5}, "must be an object"),
        ({"TRAINER": {"max_steps": "5"}}, "experiment.trainer.max_steps must be int"),
        ({"TRAINER": {"max_steps": True}}, "experiment.trainer.max_steps must be int"),
        ({"OPTIMIZER": {"betas": [0.9]}}, "needs 2 values"),
        ({"event_length": 2}, "-el"),
        ({"OBJECTIVE": {"frame_weight": 1.0}}, "--frame-head"),
    ],
)
def test_wrong_values_are_named(plain: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Experiment.from_dict(plain)
    assert part in str(caught.value)


def test_json_must_be_an_object() -> None:
    with pytest.raises(ValueError, match="object"):
        Experiment.from_json("[1]")


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Experiment().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("samples", "steps", "frames"), [(32767, 206, 110), (65534, 411, 219), (98301, 616, 328)]
)
def test_derived_numbers_of_the_published_lengths(samples: int, steps: int, frames: int) -> None:
    audio = AudioConfig(segment_samples=samples, hop_length=300)
    assert audio.max_shift_steps == steps == max_shift_steps(samples)
    assert audio.num_frames == frames


@given(st.integers(1, 64), st.integers(1, 64))
def test_batch_pairs_divide_or_are_refused_with_pairs_that_do(sub: int, local: int) -> None:
    if local % sub == 0:
        assert BatchSizes(sub, local).local == local
        return
    with pytest.raises(ValueError, match="-bsz") as caught:
        BatchSizes(sub, local)
    offered = str(caught.value).partition("pairs that fit: ")[2].split(", ")
    for pair in offered:
        _, good_sub, good_local = pair.split()
        assert int(good_local) == local
        assert local % int(good_sub) == 0


def test_counted_nouns() -> None:
    assert [counted(count, "song") for count in (0, 1, 2, 1200)] == [
        "0 songs",
        "1 song",
        "2 songs",
        "1,200 songs",
    ]
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]


NOUNS = "songs|notes|files|tokens|windows|tensors|weights|sets|steps|kernels|workers|processes|checkpoints"


@pytest.mark.parametrize("room", ["cli", "inference", "quickstart", "reports", "training"])
def test_what_is_printed_counts_nouns_by_the_helper(room: str) -> None:
    """No ``{len(songs)} songs``, which reads ``1 songs``; after "of" and "than" the noun is right."""
    written = re.compile(rf"(\S* ?)\{{(?:len|sum)\([^{{}}]*\)(?::,)?\}} (?:{NOUNS})\b")
    for path in sorted((Path(amt.config.__file__).parents[1] / room).rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = written.search(line)
            assert found is None or found[1].strip() == "of", f"{path.name}:{number}: {line.strip()}"


def test_names() -> None:
    assert nearest("consine", ("cosine", "constant"))[0] == "cosine"
    assert nearest("zzz", ("cosine", "constant")) == []
    assert "did you mean 'cosine'" in str(unknown_name("scheduler", "consine", ("cosine", "linear")))
    assert "known: a, b" in str(unknown_name("letter", "zzz", ("b", "a")))
