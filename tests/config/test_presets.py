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
    for text, near in (("mime", "did you mean 'mine'.*"), ("qqqqqqq", "")):
        with pytest.raises(ValueError, match=rf"'{text}'; {near}in .* there is mine, odd; amt-prepare list"):
            get_preset(text, tmp_path)
    with pytest.raises(ValueError, match="there is no data set; amt-prepare list"):
        get_preset("qqqqqqq", tmp_path / "mine")
    with pytest.raises(ValueError, match="'guitarset_al'; did you mean") as caught:
        get_preset("guitarset_al")
    assert str(caught.value).count("guitarset") == 6, "five near names and the word itself"
    both = combine_presets(["quickstart", "mine"], tmp_path)
    assert both.presets == ("quickstart", "mine")
    assert both.weights == (1.0, 1.0)
    with pytest.raises(ValueError, match="occurs twice"):
        combine_presets(["mine", "mine"], tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        combine_presets([], tmp_path)


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "data_presets.json").read_text())
VOCAB_NAMES = {
    "MUSICNET_INSTR_CLASS": "musicnet",
    "PIANO_SOLO_CLASS": "piano_solo",
    "GUITAR_SOLO_CLASS": "guitar_solo",
    "BASS_SOLO_CLASS": "bass_solo",
    "SINGING_SOLO_CLASS": "singing_solo",
    "GM_INSTR_CLASS": "gm",
    "GM_INSTR_CLASS_PLUS": "gm_plus",
    "GM_INSTR_EXT_CLASS_PLUS": "gm_ext_plus",
    None: None,
}
NOT_THERE = {
    "musicnet_mt3_em_synth": "musicnet_mt3_em",
    "musicnet_em_synth_table2": "musicnet_thickstun_em",
    "mir_st500_stem": "mir_st500",
}
"""Members of the published multi presets that no published table holds, and what stands for them here."""


def splits(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, dict):
        # enstdrums_dtp lists its two splits twice, which changes no share of the draws.
        return tuple(dict.fromkeys(value["merge"]))
    return (str(value),)


@pytest.mark.parametrize("name", sorted(GOLDEN["single"]))
def test_single_presets_are_the_published_ones(name: str) -> None:
    expected, preset = GOLDEN["single"][name], get_preset(name)
    assert isinstance(preset, SinglePreset)
    assert preset.store == expected["dataset"]
    assert preset.train == splits(expected["train"])
    assert tuple(item.split for item in preset.validation) == splits(expected["validation"])
    assert tuple(item.split for item in preset.test) == splits(expected["test"])
    vocab = expected["eval_vocab"]
    # The published table forgot the list around the vocabulary of guitarset_minus_ss.
    vocab = vocab["NOT_A_LIST"] if isinstance(vocab, dict) else vocab[0]
    assert preset.eval_vocab == VOCAB_NAMES[vocab]
    assert preset.eval_drum_vocab == expected.get("eval_drum_vocab")
    assert preset.octave_free == tuple(expected.get("add_pitch_class_metric", ()))
    assert preset.octave_free == () or set(preset.octave_free) <= set(
        get_program_vocab(str(preset.eval_vocab))
    )


@pytest.mark.parametrize("name", sorted(GOLDEN["multi"]))
def test_multi_presets_are_the_published_ones(name: str) -> None:
    expected, preset = GOLDEN["multi"][name], get_preset(name)
    assert isinstance(preset, MultiPreset)
    members = [NOT_THERE.get(member, member) for member in expected["presets"]]
    weights = expected["weights"] or [1.0] * len(members)
    if name == "multi_sanity_check":  # the published one lists one preset twice, and loses one of the two
        members, weights = members[:1], [1.0]
    assert list(preset.presets) == members
    assert preset.weights == pytest.approx(weights)
    vocabs = expected["eval_vocab"]
    for number, member in enumerate(members):
        own = preset.eval_vocab[number] or SINGLE_PRESETS[member].eval_vocab
        # Published lists of one vocabulary for two presets are short; each set takes its own here.
        if len(vocabs) == len(members) and vocabs[number] is not None:
            assert own == VOCAB_NAMES[vocabs[number]]
        else:
            assert own == SINGLE_PRESETS[member].eval_vocab
    assert set(preset.eval_drum_vocab) == {expected.get("eval_drum_vocab")}
    assert set(preset.validation_files) == {expected.get("val_max_num_files") or 0}


def test_mixtures_with_private_data() -> None:
    for name in ("picogen_reweight", "singing_add_12", "hooktheory_yourmt3_16k", "all_cross_final"):
        assert name in list_presets()
    mix, final = get_preset("singing_add_12"), get_preset("all_cross_final")
    assert isinstance(mix, MultiPreset)
    assert isinstance(final, MultiPreset)
    assert sum(mix.weights) == pytest.approx(1.0)
    assert sum(mix.weights[len(final.weights) :]) == pytest.approx(0.12)
    ratio = [one / other for one, other in zip(mix.weights, final.weights, strict=False)]
    assert ratio == pytest.approx([ratio[0]] * len(final.weights))


def test_the_command_that_builds_a_store_exists() -> None:
    from amt.cli.prepare import COMMANDS

    for preset in SINGLE_PRESETS.values():
        command, name, *_ = preset.prepare_command.split()
        assert command == "amt-prepare"
        assert name in COMMANDS, preset.name


def test_several_mixtures_add_the_weights_of_their_common_members() -> None:
    both = combine_presets(["minimal", "singing_v1", "maestro"])
    assert both.presets == ("slakh", "mir_st500_voc", "mir_st500", "maestro")
    assert both.weights == (1.6, 0.2, 0.2, 1.0)
    assert both.eval_vocab == (None, "singing_solo", "singing_solo", "piano_solo")
    assert both.eval_drum_vocab == ("ksh", "ksh", "ksh", None)
    assert both.validation_files == (20, 20, 20, 0)
    left = apply_excluded_presets(both, ["mir_st500_voc"])
    assert left.weights == (1.6, 0.2, 1.0)
    assert left.validation_files == (20, 20, 0)
    with pytest.raises(ValueError, match="did you mean 'mir_st500'"):
        get_preset("mir_st50")
