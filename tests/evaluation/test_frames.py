"""Frame scores against mir_eval.multipitch and piano rolls painted cell by cell."""

import math
import warnings

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.evaluation import frame_counts, repair_notes, score_notes
from amt.evaluation.intervals import Runs, merge_runs, shared_cells
from amt.notes.note import Note, array_to_notes

HOP = 0.0625


def painted(notes: list[Note], num_frames: int, hop: float) -> list[set[int]]:
    """Pitches of each frame."""
    frames: list[set[int]] = [set() for _ in range(num_frames)]
    for note in notes:
        first = math.floor(round(note.onset / hop, 6))
        stop = max(math.floor(round(note.offset / hop, 6)), first + 1)
        for frame in frames[first:stop]:
            frame.add(note.pitch)
    return frames


def judge(ref: list[Note], est: list[Note], hop: float) -> tuple[float, float]:
    """F by pitch and by pitch class from mir_eval; NaN without reference."""
    ref, est = array_to_notes(repair_notes(ref)), array_to_notes(repair_notes(est))
    if not ref or not est:
        return (math.nan,) * 2 if not ref else (0.0,) * 2
    num_frames = int(max(note.offset for note in ref + est) / hop) + 2
    times = np.arange(num_frames) * hop
    hertz = [
        [
            mir_eval.util.midi_to_hz(np.array(sorted(frame), dtype=float))
            for frame in painted(notes, num_frames, hop)
        ]
        for notes in (ref, est)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = mir_eval.multipitch.evaluate(times, hertz[0], times, hertz[1])
    found = []
    for ending in ("", "Chroma "):
        precision, recall = scores[f"{ending}Precision"], scores[f"{ending}Recall"]
        found.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return found[0], found[1]


# Octaves within a frame, notes that touch, doubled notes, notes without length, times on and beside the grid.
notes = st.lists(
    st.builds(
        lambda start, jitter, length, pitch: Note(
            start * HOP + jitter, start * HOP + jitter + length, pitch, 0
        ),
        st.integers(0, 24),
        st.sampled_from([0.0, 0.0, 0.01, 0.0624]),
        st.sampled_from([0.0, 0.01, HOP, 2 * HOP, 0.2, 1.0]),
        st.sampled_from([48, 59, 60, 61, 72, 84]),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(notes, notes, st.sampled_from([HOP, 0.01, 0.02]))
def test_equals_mir_eval(ref: list[Note], est: list[Note], hop: float) -> None:
    by_pitch, by_class = frame_counts(repair_notes(ref), repair_notes(est), hop=hop)
    expected = judge(ref, est, hop)
    assert by_pitch.f == pytest.approx(expected[0], abs=1e-6, nan_ok=True)
    assert by_class.f == pytest.approx(expected[1], abs=1e-6, nan_ok=True)
    if hop == HOP:
        scores = score_notes(ref, est)
        assert scores["frame_f"] == pytest.approx(expected[0], abs=1e-6, nan_ok=True)
        assert scores["frame_f_pc"] == pytest.approx(expected[1], abs=1e-6, nan_ok=True)


def test_equals_mir_eval_on_a_dense_song() -> None:
    rng = np.random.default_rng(0)

    def song(seed: int) -> list[Note]:
        onset = np.sort(rng.uniform(0, 30, 400))
        length = rng.uniform(0.02, 2, 400)
        pitch = rng.integers(36, 90, 400)
        return [Note(t, t + d, int(p)) for t, d, p in zip(onset, length, pitch, strict=True)]

    ref = song(0)
    est = [n._replace(pitch=n.pitch + 12 * (i % 3 == 0)) for i, n in enumerate(ref) if i % 5] + song(1)[:80]
    expected = judge(ref, est, HOP)
    scores = score_notes(ref, est)
    assert 0.3 < expected[0] < expected[1] < 1
    assert scores["frame_f"] == pytest.approx(expected[0], abs=1e-6)
    assert scores["frame_f_pc"] == pytest.approx(expected[1], abs=1e-6)


def test_what_is_found_after_the_reference_counts() -> None:
    ref, est = [Note(0, 1, 60)], [Note(0, 1, 60), Note(2, 3, 60)]
    assert score_notes(ref, est)["frame_f"] == pytest.approx(2 * 16 / (16 + 32))


def test_drums_are_no_frames() -> None:
    drums = [Note(0, 1, 36, 128, True)]
    scores = score_notes([Note(0, 1, 60)], [Note(0, 1, 60), *drums])
    assert scores["frame_f"] == 1.0
    assert math.isnan(score_notes(drums, drums)["frame_f"])
    assert score_notes(drums, [Note(0, 1, 60)])["frame_f_strict"] == 0.0


def test_a_note_of_a_million_seconds_costs_nothing() -> None:
    long = [Note(0, 1e6, 60), Note(5.0, 9e5, 60)]
    counts, _ = frame_counts(repair_notes(long), repair_notes([Note(0, 5e5, 60)]))
    assert (counts.num_matched, counts.num_reference, counts.num_estimate) == (
        8_000_000,
        16_000_000,
        8_000_000,
    )


cells = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 4)), max_size=8)


@settings(max_examples=100, deadline=None)
@given(cells, cells)
def test_runs_are_sets_of_cells(ref: list[tuple[int, int, int]], est: list[tuple[int, int, int]]) -> None:
    sets = [{(g, f) for g, a, n in side for f in range(a, a + n)} for side in (ref, est)]
    runs = []
    for side in (ref, est):
        table = np.array(side, dtype=np.int64).reshape(-1, 3)
        runs.append(merge_runs(Runs(table[:, 0], table[:, 1], table[:, 1] + table[:, 2])))
    for run, expected in zip(runs, sets, strict=True):
        got = [(g, f) for g, a, b in zip(run.group, run.first, run.stop, strict=True) for f in range(a, b)]
        assert len(got) == len(set(got))
        assert set(got) == expected
        assert run.num_cells == len(expected)
    assert shared_cells(*runs) == len(sets[0] & sets[1])
