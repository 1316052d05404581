"""Where the notes went: each kind by hand, and what must add up for any notes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.evaluation import NoteErrors, Scoring, add_errors, note_errors, note_prf
from amt.evaluation.errors import KINDS
from amt.notes.note import Note

VOCAB = {"Piano": (0,), "Bass": (33,), "Voice": (100, 101)}
SCORING = Scoring(VOCAB, {"Kick": (36, 35), "Snare": (38, 40)})
FOUND_AS = {
    "right": Note(1.02, 1.5, 60, 0),
    "wrong_instrument": Note(1.02, 1.5, 60, 33),
    "octave": Note(0.97, 1.5, 72, 33),
    "timing": Note(1.15, 1.5, 60, 0),
    "pitch": Note(1.0, 1.5, 61, 0),
}


@pytest.mark.parametrize("kind", FOUND_AS)
def test_each_kind_of_pair(kind: str) -> None:
    errors = note_errors([Note(1.0, 1.5, 60, 0)], [FOUND_AS[kind]], SCORING)
    assert errors.counts == {name: int(name == kind) for name in KINDS}


def test_missed_and_extra() -> None:
    errors = note_errors([Note(1.0, 1.5, 60, 0)], [Note(1.3, 1.5, 60, 0), Note(9.0, 9.5, 40, 33)], SCORING)
    assert (errors.counts["missed"], errors.counts["extra"]) == (1, 2)
    assert errors.confusion[:-1, -1].tolist() == [1, 0, 0, 0, 0]
    assert errors.confusion[-1, :-1].tolist() == [1, 1, 0, 0, 0]


def test_the_right_class_is_preferred() -> None:
    """Two instruments that play the same note are not crossed."""
    both = [Note(1.0, 2.0, 60, 0), Note(1.01, 2.0, 60, 33)]
    assert note_errors(both, both[::-1], SCORING).counts["right"] == 2
    swapped = [Note(1.0, 2.0, 60, 33), Note(1.01, 2.0, 60, 100)]
    errors = note_errors(both, swapped, SCORING)
    assert (errors.counts["right"], errors.counts["wrong_instrument"]) == (1, 1)
    assert errors.confusion[0, 2] == 1
    assert errors.leakage() == {"Piano": (1.0, pytest.approx(float("nan"), nan_ok=True)), "Bass": (0.0, 0.0),
                                "Voice": (pytest.approx(float("nan"), nan_ok=True), 1.0)}  # fmt: skip


def test_drums_are_compared_by_their_class_and_apart() -> None:
    hits = [Note(t, t + 0.01, pitch, 128, True) for t, pitch in ((1.0, 36), (2.0, 38), (3.0, 38), (4.0, 50))]
    found = [Note(t, t + 0.01, pitch, 128, True) for t, pitch in ((1.01, 35), (2.0, 40), (3.0, 36))]
    errors = note_errors(hits, found, SCORING)
    assert errors.drums == {"right": 2, "missed": 1, "extra": 1}
    assert sum(errors.counts.values()) == 0
    assert errors.confusion[-2, -2] == 2
    as_pitched = [note._replace(is_drum=False, program=0) for note in found]
    assert note_errors(hits, as_pitched, SCORING).drums == {"right": 0, "missed": 3, "extra": 0}


def test_ends_and_deviations() -> None:
    reference = [Note(1.0, 2.0, 60, 0), Note(3.0, 4.0, 62, 0), Note(5.0, 5.1, 64, 0)]
    found = [Note(1.03, 2.2, 60, 0), Note(2.98, 4.21, 62, 33), Note(5.15, 5.3, 64, 0)]
    errors = note_errors(reference, found, SCORING)
    assert errors.wrong_end == 1
    assert errors.deviations == pytest.approx([0.03, -0.02, 0.15])
    centres, counts = errors.histogram()
    assert len(centres) == len(counts) == 41
    assert {c: n for c, n in zip(centres, counts, strict=True) if n} == {-0.02: 1, 0.03: 1, 0.15: 1}
    plain = errors.to_dict()["onset_deviation"]
    assert plain["mean_ms"] == pytest.approx(160 / 3)
    assert plain["median_ms"] == pytest.approx(30)
    assert plain["mean_abs_ms"] == pytest.approx(200 / 3)


def test_instruments_present() -> None:
    reference = [Note(1.0, 2.0, 60, 0), Note(1.0, 1.01, 36, 128, True)]
    errors = note_errors(reference, [Note(1.0, 2.0, 60, 0), Note(5.0, 6.0, 90, 77)], SCORING)
    assert errors.to_dict()["instruments"] == {"reference": 2, "estimate": 2, "both": 1}
    assert errors.confusion[-1, 3] == 1, "a note of no class"


notes = st.lists(
    st.builds(
        lambda onset, length, pitch, program, drum: Note(
            onset / 50, onset / 50 + length / 50, pitch, 128 if drum else program, drum
        ),
        st.integers(0, 60),
        st.integers(0, 20),
        st.integers(58, 74),
        st.sampled_from([0, 33, 100, 77]),
        st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(notes, notes)
def test_every_note_is_counted_once(reference: list[Note], estimate: list[Note]) -> None:
    errors = note_errors(reference, estimate, SCORING)
    pitched = [[note for note in side if not note.is_drum] for side in (reference, estimate)]
    assert (errors.num_reference, errors.num_estimate) == (len(pitched[0]), len(pitched[1]))
    drums = errors.drums
    known = [sum(n.is_drum and n.pitch in (36, 35, 38, 40) for n in side) for side in (reference, estimate)]
    assert [drums["right"] + drums["missed"], drums["right"] + drums["extra"]] == known
    table = errors.confusion
    assert table[:-1].sum() == errors.num_reference + known[0]
    assert table[:, :-1].sum() == errors.num_estimate + known[1]
    same_note = errors.counts["right"] + errors.counts["wrong_instrument"]
    assert table[:-1, :-1].sum() == same_note + drums["right"]
    assert np.trace(table) == errors.counts["right"] + drums["right"]
    assert same_note <= note_prf(*pitched).num_matched
    assert len(errors.deviations) == same_note + errors.counts["timing"]
    assert sum(errors.histogram()[1]) == len(errors.deviations)
    assert (np.abs(errors.deviations) <= 0.20005).all()


def test_files_add_up() -> None:
    rng = np.random.default_rng(0)
    files: list[NoteErrors] = []
    for _ in range(3):
        sides = [
            [
                Note(t, t + 0.3, int(p), 0)
                for t, p in zip(rng.uniform(0, 9, 20), rng.integers(60, 64, 20), strict=True)
            ]
            for _ in range(2)
        ]
        files.append(note_errors(*sides, SCORING))
    total = add_errors(files)
    assert total.counts == {kind: sum(item.counts[kind] for item in files) for kind in KINDS}
    assert total.num_reference == 60
    assert total.confusion.sum() == sum(item.confusion.sum() for item in files)
    assert len(total.deviations) == sum(len(item.deviations) for item in files)
    assert total.present == (3, 3, 3)
    with pytest.raises(ValueError, match="same classes"):
        add_errors([files[0], note_errors([], [], Scoring())])
