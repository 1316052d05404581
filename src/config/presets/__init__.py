"""Data presets (flag ``-d``): one file per family, one table of names. Standard library only."""

from .records import EvaluationSet, MultiPreset, SinglePreset
from .table import (
    MULTI_PRESETS,
    SINGLE_PRESETS,
    add_preset,
    apply_excluded_presets,
    combine_presets,
    get_preset,
    get_single_preset,
    list_presets,
    list_stores,
)

__all__ = [
    "MULTI_PRESETS",
    "SINGLE_PRESETS",
    "EvaluationSet",
    "MultiPreset",
    "SinglePreset",
    "add_preset",
    "apply_excluded_presets",
    "combine_presets",
    "get_preset",
    "get_single_preset",
    "list_presets",
    "list_stores",
]
