"""Data sets of sung melodies. ``_voc`` presets hear the separated voice, the others the mixture."""

from __future__ import annotations

from .records import SinglePreset, preset


def _sung(name: str, store: str, train: str, validation: str, test: str) -> SinglePreset:
    return preset(name, store, train, validation, test, vocab="singing_solo")


SINGLE: tuple[SinglePreset, ...] = (
    _sung("mir_st500", "mir_st500", "train_stem", "test", "test"),
    _sung("mir_st500_voc", "mir_st500", "train_vocal", "test_vocal", "test_vocal"),
    _sung("mir_st500_voc_debug", "mir_st500", "train_vocal", "test_vocal", "train_vocal"),
    _sung("cmedia", "cmedia", "train_stem", "train", "train"),
    _sung("cmedia_voc", "cmedia", "train_vocal", "train_vocal", "train_vocal"),
    _sung("mir1k", "mir1k", "train", "validation", "test"),
    _sung("vocadito", "vocadito", "train", "validation", "test"),
)
