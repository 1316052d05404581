"""Scores against mir_eval, the golden values of the published code, and the cases of other people."""

import json
import math
from pathlib import Path

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.evaluation import (
    NoteScore,
    matched_notes,
    note_prf,
    repair_notes,
    score_counts,
    score_keys,
    score_notes,
)
from amt.notes.note import NOTE_DTYPE, Note, notes_to_array

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "m1_metric_cases.json").read_text())["cases"]
GOLDEN = json.loads((DATA / "published_metrics.json").read_text())


def to_note(row: list[float]) -> Note:
    is_drum, program, onset, offset, pitch, velocity = row
    return Note(onset, offset, int(pitch), int(program), bool(is_drum), int(velocity))


def pitched(rows: list[list[float]]) -> list[Note]:
    return [Note(onset, offset, int(pitch)) for onset, offset, pitch in rows]


def judge(ref: list[Note], est: list[Note], offset_ratio: float | None) -> float:
    """The F-measure by mir_eval."""

    def parts(notes: list[Note]) -> tuple[np.ndarray, np.ndarray]:
        times = np.array([[n.onset, n.offset] for n in notes]).reshape(-1, 2)
        return times, mir_eval.util.midi_to_hz(np.array([n.pitch for n in notes], dtype=float))

    if not ref or not est:
        return math.nan if not ref else 0.0
    *_, f, _ = mir_eval.transcription.precision_recall_f1_overlap(
        *parts(ref), *parts(est), offset_ratio=offset_ratio
    )
    return float(f)


# Times on a 10 ms grid with quarter-millisecond offsets: many ties, many distances at the very edge.
time_steps = st.integers(0, 60)
jitters = st.sampled_from([0.0, 0.0, 0.0, 0.00005, 0.0001, -0.00004, 0.0333])
lengths = st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.7])
note_lists = st.lists(
    st.builds(
        lambda step, jitter, length, pitch, program: Note(
            max(0.0, step / 100 + jitter), max(0.0, step / 100 + jitter) + length, pitch, program
        ),
        time_steps,
        jitters,
        lengths,
        st.integers(59, 62),
        st.sampled_from([0, 33, 100]),
    ),
    max_size=24,
)


@settings(max_examples=300, deadline=None)
@given(note_lists, note_lists)
def test_equals_mir_eval(ref: list[Note], est: list[Note]) -> None:
    scores = score_notes(ref, est, {"Piano": range(8), "Bass": range(32, 40), "Voice": (100, 101)})
    assert scores["onset_f"] == pytest.approx(judge(ref, est, None), abs=1e-6, nan_ok=True)
    assert scores["offset_f"] == pytest.approx(judge(ref, est, 0.2), abs=1e-6, nan_ok=True)
    for name, program in (("Piano", 0), ("Bass", 33), ("Voice", 100)):
        part = [n for n in ref if n.program == program], [n for n in est if n.program == program]
        assert scores[f"onset_f_{name}"] == pytest.approx(judge(*part, None), abs=1e-6, nan_ok=True)
        assert scores[f"offset_f_{name}"] == pytest.approx(judge(*part, 0.2), abs=1e-6, nan_ok=True)


def test_equals_mir_eval_on_a_dense_long_file() -> None:
    rng = np.random.default_rng(4)
    onset = np.sort(rng.uniform(0, 180, 2700))
    ref = [
        Note(t, t + d, int(p))
        for t, d, p in zip(onset, rng.uniform(0.02, 2, 2700), rng.integers(40, 80, 2700), strict=True)
    ]
    est = [
        Note(max(0.0, n.onset + e), n.offset + f, n.pitch)
        for n, e, f in zip(
            ref, rng.normal(0, 0.04, 2700), rng.normal(0, 0.2, 2700).clip(0, None), strict=True
        )
    ]
    est = [n for n in est if n.offset > n.onset]
    assert note_prf(ref, est).f == pytest.approx(judge(ref, est, None), abs=1e-6)
    assert note_prf(ref, est, with_offset=True).f == pytest.approx(judge(ref, est, 0.2), abs=1e-6)


@pytest.mark.parametrize("pair", GOLDEN["pairs"], ids=lambda pair: pair["name"])
def test_published_values(pair: dict) -> None:
    vocab = GOLDEN["vocabularies"].get(pair["eval_vocab"])
    drums = GOLDEN["drum_vocabularies"].get(pair["eval_drum_vocab"])
    scores = score_notes(
        [to_note(row) for row in pair["ref"]],
        [to_note(row) for row in pair["est"]],
        vocab,
        drums,
        pitch_class=pair["add_pitch_class_metric"] or (),
        strict=False,
        onset_tolerance=pair["onset_tolerance"],
    )
    expected = {key: value for group in pair["validation"].values() for key, value in group.items()}
    assert set(scores) == set(expected)
    for key, value in expected.items():
        want = math.nan if value == "nan" else value
        assert scores[key] == pytest.approx(want, abs=1e-6, nan_ok=True), key


@pytest.mark.parametrize("case", [c for c in CASES if "ref" in c], ids=lambda case: case["id"])
def test_cases(case: dict) -> None:
    ref, est = pitched(case["ref"]), pitched(case["est"])
    onset, offset = note_prf(ref, est), note_prf(ref, est, with_offset=True)
    expected = case["expected"]
    if "onset_f" in expected:
        assert onset.f == pytest.approx(expected["onset_f"], abs=1e-6)
    if "offset_f" in expected:
        assert offset.f == pytest.approx(expected["offset_f"], abs=1e-6)
    if "f" in expected:
        assert onset.f_strict == expected["f"]
        for name in ("precision", "recall"):
            want = math.nan if expected[name] is None else expected[name]
            assert getattr(onset, name) == pytest.approx(want, nan_ok=True)
    elif "precision" in expected:
        assert (onset.precision, onset.recall) == (expected["precision"], expected["recall"])
    if expected.get("counted_in_macro_average") is False:
        assert math.isnan(onset.f)
        assert math.isnan(onset.f_strict)


def test_drums_are_onsets() -> None:
    case = next(c for c in CASES if c["id"] == "e15")
    ref, est = (
        [Note(onset, onset + length, pitch, 128, True) for onset, pitch in case[key]]
        for key, length in (("ref_drums", 0.01), ("est_drums", 3.0))
    )
    assert score_notes(ref, est)["onset_f_drum"] == case["expected"]["drum_onset_f"]


def test_files_pool_as_counts() -> None:
    case = next(c for c in CASES if c["id"] == "e17")
    files = [NoteScore(f["tp"], f["n_ref"], f["n_est"]) for f in case["per_file"]]
    assert (files[0] + files[1]).f == pytest.approx(case["expected"]["micro_f"], abs=1e-6)
    assert np.mean([f.f for f in files]) == pytest.approx(case["expected"]["mean_of_file_f"])


def test_false_positives_on_an_empty_reference() -> None:
    scores = score_notes([], [Note(0, 1, 60, 100)], {"Voice": (100,), "Piano": (0,)})
    assert math.isnan(scores["onset_f"])
    assert scores["onset_f_strict"] == 0.0
    assert scores["onset_f_Voice_strict"] == 0.0
    assert math.isnan(scores["onset_f_Piano_strict"])


any_time = st.floats(allow_nan=True, allow_infinity=True, width=64)
wild_notes = st.lists(
    st.builds(
        Note, any_time, any_time, st.integers(-5, 140), st.integers(-3, 300), st.booleans(), st.just(1)
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(wild_notes, wild_notes)
def test_never_raises_and_stays_in_range(ref: list[Note], est: list[Note]) -> None:
    scores = score_notes(ref, est, {"Voice": (100, 101)}, {"Kick": (36, 35)})
    assert list(scores) == score_keys({"Voice": (100, 101)})
    assert all(math.isnan(value) or 0.0 <= value <= 1.0 for value in scores.values())


def test_repair() -> None:
    repaired = repair_notes([Note(-0.01, 1, 60), Note(1, 1, 61), Note(math.nan, 2, 62), Note(0, 1, 200)])
    assert repaired["pitch"].tolist() == [60, 61]
    assert repaired["onset"].tolist() == [0.0, 1.0]
    assert (repaired["offset"] > repaired["onset"]).all()


def test_input_is_left_alone() -> None:
    array = notes_to_array([Note(-1, -2, 60), Note(0, 0, 38, 128, True)])
    before = array.copy()
    score_notes(array, array, {"A": (0,)}, {"Snare": (40, 38)})
    assert (array == before).all()


def test_classes_may_share_programs() -> None:
    notes = [Note(0, 1, 60, 100), Note(1, 2, 62, 101)]
    counts = score_counts(notes, notes, {"lead": (100,), "all": (100, 101)})
    assert counts["onset_f_lead"].num_reference == 1
    assert counts["onset_f_all"].num_matched == 2


def test_matched_notes_say_which() -> None:
    ref = [Note(1.0, 2, 60), Note(1.04, 2, 60), Note(5, 6, 70)]
    est = [Note(1.02, 2, 60), Note(0.96, 2, 60)]
    assert matched_notes(ref, est).tolist() == [1, 0, -1]
    assert matched_notes(np.zeros(0, NOTE_DTYPE), est).tolist() == []


def test_unknown_pitch_class_name() -> None:
    with pytest.raises(ValueError, match="no class"):
        score_notes([], [], {"Bass": (33,)}, pitch_class=("Bas",))
