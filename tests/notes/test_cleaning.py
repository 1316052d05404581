"""Sorting, repairing and trimming notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.notes import (
    NOTE_DTYPE,
    Note,
    array_to_notes,
    clean_notes,
    notes_to_array,
    sort_notes,
    trim_overlaps,
    validate_notes,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "note_tools.json").read_text())


def golden_notes(rows: list[list[Any]]) -> list[Note]:
    return [Note(on, off, pitch, program, bool(drum), v) for drum, program, on, off, pitch, v in rows]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["name"]))
def test_published_note_tools(case: dict[str, Any]) -> None:
    array = notes_to_array(golden_notes(case["notes"]))
    assert array_to_notes(sort_notes(array)) == golden_notes(case["sorted"])
    assert array_to_notes(trim_overlaps(array)) == golden_notes(case["trimmed"])
    assert array_to_notes(validate_notes(array)) == golden_notes(case["validated"])
    # The published mix of note lists trims before it validates.
    mixed = validate_notes(trim_overlaps(sort_notes(array)))
    assert array_to_notes(mixed) == golden_notes(case["mixed"])


def test_clean_repairs_before_it_trims() -> None:
    """The published order drops a note of no length; a short real note should survive."""
    notes = [Note(1, 1, 60), Note(2, 1.9, 61), Note(float("nan"), 1, 62), Note(3, float("inf"), 63)]
    assert array_to_notes(clean_notes(notes_to_array(notes))) == [Note(1, 1.01, 60), Note(2, 2.01, 61)]


def test_programs_given_decide_what_overlaps() -> None:
    array = notes_to_array([Note(0, 2, 60, 0), Note(1, 3, 60, 1)])
    assert array_to_notes(clean_notes(array)) == [Note(0, 2, 60, 0), Note(1, 3, 60, 1)]
    merged = clean_notes(array, np.array([0, 0]))
    assert array_to_notes(merged) == [Note(0, 1, 60, 0), Note(1, 3, 60, 1)]


def test_inputs_stay_as_they_are_and_other_dtypes_are_refused() -> None:
    array = notes_to_array([Note(0, 2, 60), Note(1, 1, 60)])
    before = array.copy()
    clean_notes(array)
    np.testing.assert_array_equal(array, before)
    assert len(clean_notes(np.empty(0, NOTE_DTYPE))) == 0
    with pytest.raises(ValueError, match="NOTE_DTYPE"):
        notes_to_array(np.zeros(3))


@given(
    st.lists(
        st.builds(
            Note,
            st.floats(0, 3),
            st.floats(0, 3),
            st.integers(60, 62),
            st.sampled_from([0, 1]),
            st.booleans(),
            st.just(1),
        ),
        max_size=30,
    )
)
@settings(max_examples=200, deadline=None)
def test_clean_laws(notes: list[Note]) -> None:
    cleaned = clean_notes(notes_to_array(notes))
    assert (cleaned["offset"] > cleaned["onset"]).all()
    np.testing.assert_array_equal(clean_notes(cleaned), cleaned)
    last: dict[tuple[int, int, bool], float] = {}
    for note in array_to_notes(cleaned):
        key = (note.pitch, note.program, note.is_drum)
        assert note.onset >= last.get(key, -1.0)
        last[key] = note.offset
    onsets = {(n.onset, n.pitch, n.program, n.is_drum) for n in notes if n.offset - n.onset >= 0.01}
    kept = {(n.onset, n.pitch, n.program, n.is_drum) for n in array_to_notes(cleaned)}
    assert onsets <= kept
