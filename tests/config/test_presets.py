"""The preset tables and how names become presets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amt.config.presets import (
    MULTI_PRESETS,
    SINGLE_PRESETS,
    EvaluationSet,
    MultiPreset,
    SinglePreset,
    apply_excluded_presets,
    combine_presets,
    get_preset,
    list_presets,
)
from amt.config.vocabularies import get_program_vocab


def test_the_tables_hold_together() -> None:
    assert "quickstart" in list_presets()
    assert not set(SINGLE_PRESETS) & set(MULTI_PRESETS)
    for name in list_presets():
        preset = get_preset(name)
        assert preset.name == name
        vocabs = preset.eval_vocab if isinstance(preset, MultiPreset) else (preset.eval_vocab,)
        for vocab in vocabs:
            assert vocab is None or get_program_vocab(vocab)
        if isinstance(preset, MultiPreset):
            assert len(preset.presets) == len(preset.weights) == len(preset.eval_vocab)
            assert set(preset.presets) <= set(SINGLE_PRESETS)


def test_the_quickstart_sets() -> None:
    preset = get_preset("quickstart")
    assert isinstance(preset, SinglePreset)
    assert (preset.store, preset.train) == ("quickstart", ("train",))
    assert [(item.name, item.split) for item in preset.validation] == [
        ("quickstart", "validation"),
        ("quickstart_hard", "validation_hard"),
    ]
    assert [(item.name, item.split) for item in preset.test] == [
        ("quickstart_standard", "test_standard"),
        ("quickstart_hard", "test_hard"),
    ]


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equal lengths.*\(2, 1, 1\)"):
        MultiPreset("m", ("a", "b"), (1.0,), (None,))
    with pytest.raises(ValueError, match="weights"):
        MultiPreset("m", ("a",), (float("nan"),), (None,))
    with pytest.raises(ValueError, match="weights"):
        MultiPreset("m", ("a",), (0.0,), (None,))
    with pytest.raises(ValueError, match="no split"):
        SinglePreset("s", "s", train=())
    with pytest.raises(ValueError, match="two evaluation sets of one name"):
        SinglePreset("s", "s", validation=(EvaluationSet("x", "a"), EvaluationSet("x", "b")))


def test_exclusion_filters_the_three_lists_together() -> None:
    mix = MultiPreset("m", ("a", "b", "c"), (1.0, 2.0, 3.0), ("gm", None, "gm_plus"))
    left = apply_excluded_presets(mix, ["b"])
    assert (left.presets, left.weights, left.eval_vocab) == (("a", "c"), (1.0, 3.0), ("gm", "gm_plus"))
    assert apply_excluded_presets(mix, []) == mix
    assert apply_excluded_presets(mix, ["quickstart"]) == mix
    with pytest.raises(ValueError, match="AMT_EXCLUDE_PRESETS"):
        apply_excluded_presets(mix, ["bb"])
    with pytest.raises(ValueError, match="leaves no data preset"):
        apply_excluded_presets(mix, ["a", "b", "c"])


def test_a_prepared_store_is_a_preset_of_itself(tmp_path: Path) -> None:
    def store(name: str, **songs: int) -> None:
        (tmp_path / name).mkdir()
        splits = {split: {"songs": count} for split, count in songs.items()}
        (tmp_path / name / "store.json").write_text(json.dumps({"splits": splits}))

    store("mine", train=3, validation=1, test=0)
    preset = get_preset("mine", tmp_path)
    assert preset == SinglePreset("mine", "mine", ("train",), (EvaluationSet("mine", "validation"),), ())
    store("odd", everything=3)
    with pytest.raises(ValueError, match="has everything"):
        get_preset("odd", tmp_path)
    with pytest.raises(ValueError, match="did you mean 'mine'"):
        get_preset("mime", tmp_path)
    with pytest.raises(ValueError, match="unknown data preset"):
        get_preset("../mine", tmp_path / "mine")
    both = combine_presets(["quickstart", "mine"], tmp_path)
    assert both.presets == ("quickstart", "mine")
    assert both.weights == (1.0, 1.0)
    with pytest.raises(ValueError, match="occurs twice"):
        combine_presets(["mine", "mine"], tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        combine_presets([], tmp_path)
