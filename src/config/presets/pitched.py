"""Data sets of pitched instruments: one program or a few, with notes of everything that is heard."""

from __future__ import annotations

from .records import SinglePreset, preset

_GUITAR_STYLES = ("BN", "Funk", "SS", "Jazz", "Rock")


def _musicnet(name: str, train: str, validation: str, test: str) -> SinglePreset:
    return preset(name, "musicnet", train, validation, test, vocab="musicnet")


def _guitarset(name: str, train: tuple[str, ...], validation: str, test: str) -> SinglePreset:
    return preset(name, "guitarset", train, validation, test, vocab="guitar_solo")


SINGLE: tuple[SinglePreset, ...] = (
    _musicnet("musicnet_mt3", "train_mt3", "validation_mt3_acoustic", "test_mt3_acoustic"),
    _musicnet("musicnet_mt3_synth_only", "train_mt3_synth", "validation_mt3_synth", "test_mt3_acoustic"),
    _musicnet("musicnet_mt3_em", "train_mt3_em", "validation_mt3_em", "test_mt3_em"),
    _musicnet("musicnet_thickstun", "train_thickstun", "test_thickstun", "test_thickstun"),
    _musicnet("musicnet_thickstun_em", "train_thickstun_em", "test_thickstun_em", "test_thickstun_em"),
    _musicnet("musicnet_thickstun_ext", "train_thickstun", "test_thickstun_ext", "test_thickstun_ext"),
    _musicnet(
        "musicnet_thickstun_ext_em", "train_thickstun_em", "test_thickstun_ext_em", "test_thickstun_ext_em"
    ),
    preset("maps_default", "maps", "train", "test", "test", vocab="piano_solo"),
    preset("maps_all", "maps", "all"),
    preset("maestro", "maestro", "train", "validation", "test", vocab="piano_solo"),
    preset("maestro_final", "maestro", ("train", "validation"), "test", "test", vocab="piano_solo"),
    _guitarset("guitarset", ("train",), "validation", "test"),
    _guitarset("guitarset_pshift", ("train_pshift",), "validation", "test"),
    _guitarset("guitarset_progression", ("progression_1", "progression_2"), "progression_3", "progression_3"),
    _guitarset(
        "guitarset_progression_pshift",
        ("progression_1_pshift", "progression_2_pshift"),
        "progression_3",
        "progression_3",
    ),
    *(
        _guitarset(
            f"guitarset_minus_{left_out.lower()}",
            tuple(f"{style}_pshift" for style in _GUITAR_STYLES if style != left_out),
            left_out,
            left_out,
        )
        for left_out in _GUITAR_STYLES
    ),
    preset("guitarset_all", "guitarset", "all"),
    preset("urmp", "urmp", "train", "test", "test", vocab="gm"),
    preset("idmt_smt_bass", "idmt_smt_bass", "train", "validation", "validation", vocab="bass_solo"),
    preset("rnsynth", "rnsynth", "train", "validation", "test"),
)
