"""Melody scores against mir_eval.melody on a time grid painted instant by instant."""

import math
import warnings

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.evaluation import MelodyScore, Scoring, melody_classes, melody_counts, repair_notes, score_notes
from amt.notes.note import Note, array_to_notes

HOP = 0.01
VOICE = {"Singing Voice": (100, 101)}


def sung(notes: list[Note], num_instants: int) -> np.ndarray:
    """Hz at each instant, 0 where nothing sounds; of several the one that began last, then the highest."""
    hertz = np.zeros(num_instants)
    instants = np.arange(num_instants)
    for note in sorted(notes, key=lambda n: (n.onset, n.pitch)):
        sounds = (round(note.onset / HOP, 6) <= instants) & (instants < round(note.offset / HOP, 6))
        hertz[sounds] = mir_eval.util.midi_to_hz(float(note.pitch))
    return hertz


def judge(ref: list[Note], est: list[Note], num_instants: int) -> dict[str, float]:
    ref, est = array_to_notes(repair_notes(ref)), array_to_notes(repair_notes(est))
    times = np.arange(num_instants) * HOP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mir_eval.melody.evaluate(times, sung(ref, num_instants), times, sung(est, num_instants))
    return {
        "rpa": found["Raw Pitch Accuracy"],
        "rca": found["Raw Chroma Accuracy"],
        "oa": found["Overall Accuracy"],
        "vr": found["Voicing Recall"],
        "vfa": found["Voicing False Alarm"],
    }


# Overlaps, equal onsets, notes between two instants, notes without length, octaves, gaps.
notes = st.lists(
    st.builds(
        lambda start, jitter, length, pitch: Note(
            start * HOP + jitter, start * HOP + jitter + length, pitch, 100
        ),
        st.integers(0, 120),
        st.sampled_from([0.0, 0.0, 0.004, 0.0099]),
        st.sampled_from([0.0, 0.003, 0.01, 0.05, 0.3, 0.7]),
        st.sampled_from([48, 59, 60, 72, 73]),
    ),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(notes, notes)
def test_equals_mir_eval(ref: list[Note], est: list[Note]) -> None:
    duration = 2.0
    scores = score_notes(ref, est, VOICE, duration=duration)
    expected = judge(ref, est, 200)
    score = Scoring(VOICE).counts(ref, est, duration=duration).melodies["Singing Voice"]
    assert score.num_frames == 200
    for kind, value in expected.items():
        ours = scores[f"melody_{kind}_Singing Voice"]
        if score.num_voiced and not (kind == "vfa" and score.num_voiced == 200):
            assert ours == pytest.approx(value, abs=1e-6), kind
        else:  # mir_eval gives 0 or 1 where there is nothing to count
            assert math.isnan(ours)


def test_the_grid_is_a_true_one() -> None:
    # An hour of notes on whole hundredths: no instant may slip to a neighbour.
    ref = [Note(t / 100, (t + 29) / 100, 60 + t % 5, 100) for t in range(0, 360_000, 31)]
    est = [n._replace(offset=n.offset + 0.01) for n in ref]
    score = Scoring(VOICE).counts(ref, est, duration=3600.5).melodies["Singing Voice"]
    assert score == MelodyScore(360_050, 29 * len(ref), 30 * len(ref), *(29 * len(ref),) * 3)


def test_the_grid_ends_with_the_later_of_notes_and_audio() -> None:
    ref, est = [Note(0, 1, 60, 100)], [Note(0, 1, 60, 100), Note(3, 4, 60, 100)]
    for duration, num_instants in ((None, 400), (2.0, 400), (10.0, 1000)):
        score = melody_counts(repair_notes(ref), repair_notes(est), duration=duration)
        assert score.num_frames == num_instants
        assert score.scores()["oa"] == pytest.approx((num_instants - 100) / num_instants)
        assert score.scores()["vfa"] == pytest.approx(100 / (num_instants - 100))


def test_silence() -> None:
    song = [Note(0, 1, 60, 100)]
    nothing_found = score_notes(song, [], VOICE)
    assert [nothing_found[f"melody_{kind}_Singing Voice"] for kind in ("rpa", "rca", "oa", "vr")] == [0.0] * 4
    for est, strict in ((song, 0.0), ([], math.nan)):
        scores = score_notes([], est, VOICE)
        for kind in ("rpa", "rca", "oa"):
            assert math.isnan(scores[f"melody_{kind}_Singing Voice"])
            assert scores[f"melody_{kind}_Singing Voice_strict"] == pytest.approx(strict, nan_ok=True)
        assert math.isnan(scores["melody_vfa_Singing Voice"])


def test_which_classes_are_melodies() -> None:
    vocab = {
        "Lead": (100,),
        "Chorus": (101,),
        "All voices": (100, 101),
        "Choir and lead": (52, 100),
        "Piano": (0,),
    }
    assert melody_classes(vocab) == ("Lead", "All voices")
    keys = [key for key in score_notes([], [], vocab, melody=("Piano",)) if key.startswith("melody_rpa")]
    assert keys == ["melody_rpa_Piano", "melody_rpa_Piano_strict"]
