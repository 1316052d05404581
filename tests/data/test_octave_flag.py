"""An objective that goes by the octave flag of songs says so when the flag picks no sample."""

from __future__ import annotations

from typing import Any

import pytest

from amt.config import ObjectiveConfig
from amt.data.classes import octave_remarks
from amt.data.segments import TrainingSet


@pytest.mark.parametrize(
    ("values", "of_known", "of_unknown"),
    [
        ({}, "", ""),
        ({"octave_samples": "unknown"}, "", ""),
        ({"octave_weight": 1.0}, "", ""),
        ({"octave_weight": 1.0, "octave_samples": "unknown"}, "finds no sample", ""),
        (
            {"chroma_weight": 1.0, "hide_octaves": True},
            "--octave-unknown marks songs",
            "add songs of known octave",
        ),
        ({"octave_weight": 1.0, "octave_samples": "known"}, "", "of no training song"),
    ],
)
def test_flag_without_songs(make_store: Any, values: dict[str, Any], of_known: str, of_unknown: str) -> None:
    objective = ObjectiveConfig(**values)
    store = make_store([0], songs=2)
    for unknown, expected in ((False, of_known), (True, of_unknown)):
        store.index("train")["octave_unknown"] = unknown
        found = octave_remarks([TrainingSet("own", store, ("train",))], objective)
        assert len(found) == bool(expected)
        assert expected in " ".join(found)
