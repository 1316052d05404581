"""Data sets of whole mixtures: many instruments and drums at once."""

from __future__ import annotations

from ..vocabularies import get_program_vocab
from .records import SinglePreset, preset


def _geerdes(name: str, train: str, validation: str, test: str) -> SinglePreset:
    return preset(name, "geerdes", train, validation, test, vocab="gm_plus")


SINGLE: tuple[SinglePreset, ...] = (
    preset("slakh", "slakh", "train", "validation", "test", vocab="gm", drums="gm"),
    preset("slakh_final", "slakh", ("train", "validation"), "test", "test", vocab="gm", drums="gm"),
    preset("rwc_pop_bass", "rwc_pop", "", "bass", "bass", vocab="bass_solo", octave_free=("Bass",)),
    preset(
        "rwc_pop_full",
        "rwc_pop",
        "",
        "full",
        "full",
        vocab="gm_plus",
        octave_free=tuple(get_program_vocab("gm_plus")),
    ),
    _geerdes("geerdes", "", "", "all"),
    _geerdes("geerdes_sep", "", "", "all_sep"),
    _geerdes("geerdes_half", "train", "validation", "validation"),
    _geerdes("geerdes_half_sep", "train_sep", "validation_sep", "validation_sep"),
)
