"""Note scores against mir_eval and the cases of other people."""

import json
import math
import time
import tracemalloc
from pathlib import Path

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.config import get_task
from amt.config.vocabularies import get_drum_vocab, get_program_vocab
from amt.evaluation import (
    NoteScore,
    Scoring,
    Tolerances,
    matching,
    note_prf,
    repair_notes,
    score_keys,
    score_notes,
)
from amt.notes.note import Note, array_to_notes, notes_to_array

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "m1_metric_cases.json").read_text())["cases"]


def pitched(rows: list[list[float]]) -> list[Note]:
    return [Note(onset, offset, int(pitch)) for onset, offset, pitch in rows]


def judge(ref: list[Note], est: list[Note], offset_ratio: float | None) -> float:
    """The F-measure by mir_eval, which refuses notes without length: they get 10 ms, as in the scores."""
    ref, est = array_to_notes(repair_notes(ref)), array_to_notes(repair_notes(est))

    def parts(notes: list[Note]) -> tuple[np.ndarray, np.ndarray]:
        times = np.array([[n.onset, n.offset] for n in notes]).reshape(-1, 2)
        return times, mir_eval.util.midi_to_hz(np.array([n.pitch for n in notes], dtype=float))

    if not ref or not est:
        return math.nan if not ref else 0.0
    *_, f, _ = mir_eval.transcription.precision_recall_f1_overlap(
        *parts(ref), *parts(est), offset_ratio=offset_ratio
    )
    return float(f)


# Times on a 10 ms grid with tiny offsets: chords, doubled notes, notes without length, and many distances at
# the very edge of 50 ms.
time_steps = st.integers(0, 60)
jitters = st.sampled_from([0.0, 0.0, 0.0, 0.00005, 0.0001, -0.00004, 0.0333])
lengths = st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.7])
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


@settings(max_examples=120, deadline=None)
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
    onset = np.sort(rng.uniform(0, 60, 900))
    ref = [
        Note(t, t + d, int(p))
        for t, d, p in zip(onset, rng.uniform(0.02, 2, 900), rng.integers(40, 80, 900), strict=True)
    ]
    est = [
        Note(max(0.0, n.onset + e), n.offset + f, n.pitch)
        for n, e, f in zip(ref, rng.normal(0, 0.04, 900), rng.normal(0, 0.2, 900).clip(0, None), strict=True)
    ]
    est = [n for n in est if n.offset > n.onset]
    assert note_prf(ref, est).f == pytest.approx(judge(ref, est, None), abs=1e-6)
    assert note_prf(ref, est, with_offset=True).f == pytest.approx(judge(ref, est, 0.2), abs=1e-6)


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


@settings(max_examples=100, deadline=None)
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
    counts = Scoring({"lead": (100,), "all": (100, 101)}).counts(notes, notes).notes
    assert counts["onset_f_lead"].num_reference == 1
    assert counts["onset_f_all"].num_matched == 2
    assert counts["multi_f"] == NoteScore(2, 2, 2)


def by_hand_multi(ref: list[Note], est: list[Note], vocab: dict[str, tuple[int, ...]]) -> NoteScore:
    """Counts of the multi-instrument score from mir_eval's matching, class by class, drums by onset."""
    total = [0, 0, 0]
    for programs in [*vocab.values(), None]:

        def part(notes: list[Note], programs: tuple[int, ...] | None = programs) -> list[Note]:
            return [n for n in notes if n.is_drum == (programs is None)
                    and (programs is None or n.program in programs)]  # fmt: skip

        chosen = part(ref), part(est)
        if all(chosen):
            sides = [
                (
                    np.array([[n.onset, n.offset] for n in array_to_notes(repair_notes(side))]),
                    mir_eval.util.midi_to_hz(np.array([float(n.pitch) for n in side])),
                )
                for side in chosen
            ]
            ratio = None if programs is None else 0.2
            pairs = mir_eval.transcription.match_notes(*sides[0], *sides[1], offset_ratio=ratio)
            total[0] += len(pairs)
        total[1] += len(chosen[0])
        total[2] += len(chosen[1])
    return NoteScore(*total)


@settings(max_examples=50, deadline=None)
@given(note_lists, note_lists, st.data())
def test_multi_f_equals_mir_eval_class_by_class(
    ref: list[Note], est: list[Note], data: st.DataObject
) -> None:
    drum = st.sets(st.integers(0, 5), max_size=3)
    ref, est = (
        [n._replace(is_drum=True, program=128) if i in data.draw(drum) else n for i, n in enumerate(side)]
        for side in (ref, est)
    )
    vocab = {"Piano": (0, 1), "Voice": (100, 101)}  # no bass: its notes are left out
    counts = Scoring(vocab).counts(ref, est).notes["multi_f"]
    assert counts == by_hand_multi(ref, est, vocab)


def test_wrong_instrument_counts_in_multi_f_only() -> None:
    scores = score_notes([Note(0, 1, 60, 0)], [Note(0, 1, 60, 33)], "gm_plus")
    assert (scores["onset_f"], scores["multi_f"], scores["onset_f_Piano"]) == (1.0, 0.0, 0.0)


def test_an_empty_estimate_is_zero_everywhere() -> None:
    ref = [Note(0, 1, 60, 100), Note(0, 0.01, 36, 128, True)]
    scores = score_notes(ref, [], {"Voice": (100, 101)})
    for key in ("onset_f", "offset_f", "onset_f_drum", "frame_f", "frame_f_pc", "multi_f"):
        assert scores[key] == scores[f"{key}_strict"] == 0.0
    assert scores["melody_rpa_Voice"] == scores["melody_vr_Voice"] == 0.0


def test_classes_by_name_or_task() -> None:
    ref = [Note(0, 1, 60, 100), Note(0, 0.01, 40, 128, True)]
    est = [Note(0, 1, 60, 101), Note(0, 0.01, 38, 128, True)]
    by_name = score_notes(ref, est, "gm_plus", "gm")
    assert by_name == pytest.approx(
        score_notes(ref, est, get_program_vocab("gm_plus"), get_drum_vocab("gm")), nan_ok=True
    )
    assert by_name == pytest.approx(score_notes(ref, est, get_task("mt3_full_plus")), nan_ok=True)
    assert by_name["onset_f_drum"] == 1.0
    assert score_notes(ref, est, "gm_plus")["onset_f_drum"] == 0.0
    with pytest.raises(ValueError, match="singing_solo"):
        score_notes(ref, est, "singing_sole")


def test_keys_depend_on_the_vocabulary_only() -> None:
    vocab = {"Bass": (33,), "Voice": (100, 101)}
    keys = score_keys(vocab, pitch_class=("Bass",), strict=False)
    assert keys == [
        *("onset_f", "offset_f", "onset_f_drum", "frame_f", "frame_f_pc", "multi_f"),
        *("onset_f_Bass", "offset_f_Bass", "onset_f_Voice", "offset_f_Voice"),
        *("onset_f_Bass_pc", "offset_f_Bass_pc"),
        *(f"melody_{kind}_Voice" for kind in ("rpa", "rca", "oa", "vr", "vfa")),
    ]
    strict = score_keys(vocab, pitch_class=("Bass",))
    assert list(score_notes([Note(0, 1, 60)], [], vocab, pitch_class=("Bass",))) == strict
    assert set(strict) - set(keys) == {
        f"{key}_strict" for key in keys if "_vr_" not in key and "_vfa_" not in key
    }
    assert "multi_f" not in score_keys()
    assert not any(key.startswith("melody") for key in score_keys(vocab, melody=()))


def test_counts_add_up_over_files() -> None:
    rng = np.random.default_rng(3)
    vocab = {"Bass": (33,), "Voice": (100, 101)}

    def song() -> list[Note]:
        return [
            Note(t, t + 0.3, int(p), int(q))
            for t, p, q in zip(
                np.arange(0, 3, 0.25), rng.integers(60, 63, 12), rng.choice([33, 100], 12), strict=True
            )
        ]

    files = [(song(), song()) for _ in range(3)]
    scoring = Scoring(vocab)
    parts = [scoring.counts(*pair) for pair in files]
    pooled = parts[0] + parts[1] + parts[2]
    # The pooled counts are those of the files one after the other.
    joined = [
        [
            n._replace(onset=n.onset + 10 * i, offset=n.offset + 10 * i)
            for i, p in enumerate(files)
            for n in p[k]
        ]
        for k in (0, 1)
    ]
    assert pooled.notes["onset_f"] == scoring.counts(*joined).notes["onset_f"]
    assert pooled.notes["multi_f"] == scoring.counts(*joined).notes["multi_f"]
    assert pooled.scores()["melody_rpa_Voice"] == scoring.counts(*joined).scores()["melody_rpa_Voice"]
    assert pooled.ratios()["onset_f_Bass"] == tuple(
        sum(part.ratios()["onset_f_Bass"][i] for part in parts) for i in (0, 1)
    )
    with pytest.raises(ValueError, match="same keys"):
        parts[0] + Scoring().counts([], [])


def test_pairs_agree_and_no_note_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    group, onset = np.array([60, 60, 70]), np.array([1.0, 1.04, 5.0])
    est = np.array([60, 60]), np.array([1.02, 0.96]), np.array([2.0, 2.0])
    for limit in (32, 0):
        monkeypatch.setattr(matching, "_PAIRS_PER_NOTE", limit)
        assert matching.match_notes(group, onset, onset + 1, *est).tolist() == [1, 0, -1]
        assert matching.match_notes(group[:0], onset[:0], onset[:0], *est).tolist() == []


@settings(max_examples=120, deadline=None)
@given(note_lists, note_lists)
def test_matching_in_turn_finds_as_many_as_mir_eval(ref: list[Note], est: list[Note]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_PAIRS_PER_NOTE", 0)
        for with_offset, ratio in ((False, None), (True, 0.2)):
            found = note_prf(ref, est, with_offset=with_offset).f
            assert found == pytest.approx(judge(ref, est, ratio), abs=1e-6, nan_ok=True)


def test_thousands_of_equal_notes_need_little_memory_and_time() -> None:
    """4,000 equal notes agree in 16 million pairs, which took 8.7 s and 1 GB (measured once by hand)."""
    ref = notes_to_array([Note(1, 2, 60)] * 4000)
    est = ref[:3000].copy()
    est["offset"][:1000] += 0.5
    tracemalloc.start()
    start = time.process_time()
    assert note_prf(ref, est) == NoteScore(3000, 4000, 3000)
    assert note_prf(ref, est, with_offset=True) == NoteScore(2000, 4000, 3000)
    used = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    assert used < 5.0


def test_unknown_pitch_class_name() -> None:
    with pytest.raises(ValueError, match="no class"):
        score_notes([], [], {"Bass": (33,)}, pitch_class=("Bas",))
    with pytest.raises(ValueError, match="melody names"):
        score_notes([], [], {"Bass": (33,)}, melody=("Voice",))


def test_refuses_impossible_settings() -> None:
    with pytest.raises(ValueError, match="onset tolerance"):
        Tolerances(onset=-0.05)
    with pytest.raises(ValueError, match="frame_hop"):
        Scoring(frame_hop=0.0)
    with pytest.raises(ValueError, match="duration"):
        score_notes([], [], duration=math.nan)
