"""Tokens of the published system: encoding, windows and decoding of every published task.

Where the published behaviour is a fault the product differs:

* too_long_truncates: cut between two events and still ended with EOS (published: EOS lost).
* long_note_gt_10s: notes over 10 s keep their length (published: cut to 10 ms, an error counted).
* eos_before_tie: EOS ends a sequence anywhere (published: ignored before the tie token).
* forced_off_vs_tick0_onset_rounded_down: an onset on the first tick survives a forced end (published: 10 ms).
* tie_missing_*, vectors made with the published switch for forced ends off: they are always on here.
* exc_v1: a sequence has room for its prefix of three tokens (published: 1,024 with and without).
* ``note_events`` and ``ties`` of data_decode_errors are not compared: tokens become notes in one go, without
  note events between. What they say shows in the notes, the errors, and the ties that the next window must
  have (``last_activity``), which are.
* ``note_events`` of data_tokens carry the set of sounding notes with each event; the product has no such
  sets. Events and ties of each window (``segments``) are compared.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.config.tasks import get_task
from amt.notes import Note, array_to_notes, clean_notes, notes_to_array
from amt.tokenizer import NoteTokenizer, encoding
from amt.tokenizer.vocabulary import build_tables

FOLDER = Path(__file__).parents[1] / "golden"
SEGMENT = 32767


def load(name: str) -> Any:
    return json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))


TOKENS, WINDOWS, ERRORS, VOCAB = map(
    load, ("data_tokens", "data_windows", "data_decode_errors", "data_vocab")
)
CASES = {case["name"]: case for case in TOKENS["cases"]}
TASKS = sorted(VOCAB["tasks"])


def golden_notes(rows: list[list[Any]]) -> list[Note]:
    return [Note(on, off, pitch, program, bool(drum), v) for drum, program, on, off, pitch, v in rows]


def golden_ids(tokenizer: NoteTokenizer, windows: list[Any]) -> np.ndarray[Any, Any]:
    ids = np.zeros((len(windows), tokenizer.num_channels, tokenizer.max_length), dtype=np.int64)
    for index, window in enumerate(windows):
        if isinstance(window, list):
            ids[index, 0, : len(window)] = window
            continue
        ids[index, :, :2] = tokenizer.tie_id, tokenizer.eos_id
        for channel, tokens in window.items():
            ids[index, int(channel)] = 0
            ids[index, int(channel), : len(tokens)] = tokens
    return ids


def result(case: dict[str, Any], task: str) -> dict[str, Any]:
    found: dict[str, Any] = case["tasks"][task]
    while "same_as" in found:
        found = case["tasks"][found["same_as"]]
    return found


def assert_same_notes(got: list[Note], rows: list[list[Any]]) -> None:
    def rounded(notes: list[Note]) -> list[tuple[float, ...]]:
        return sorted((round(n.onset, 6), round(n.offset, 6), n.pitch, n.program, n.is_drum) for n in notes)

    assert rounded(got) == rounded(golden_notes(rows))


def counted(*counts: dict[str, float]) -> Counter[str]:
    return sum((Counter({key: int(value) for key, value in count.items()}) for count in counts), Counter())


@pytest.mark.parametrize("task", TASKS)
def test_id_ranges(task: str) -> None:
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT)
    published = VOCAB["tasks"][task]
    assert tokenizer.vocab_size == published["num_tokens"]
    for kind in ("shift", "pitch", "velocity", "tie", "program", "drum"):
        ids = tokenizer.token_range(kind)
        assert [ids.start, ids.stop - 1] == published["ranges"][kind]
    for name, prefix in published["eval_prefix"].items():
        assert prefix == [] or tokenizer.prefix_ids(name) == prefix
    assert tokenizer.max_length == published["max_len_per_ch"]
    if task.startswith("singing"):
        assert tokenizer.sequence_length == published["max_total"]
    elif not tokenizer.prefixes:
        assert tokenizer.sequence_length == tokenizer.max_length == published["max_total"]
    for kind in ("PAD", "EOS", "UNK", *tokenizer.layout.extra_tokens):
        first, last = published["ranges"][kind]
        assert first == last
        assert tokenizer.describe([first]) == [kind]
    assert len(published["ranges"]) == 9 + len(tokenizer.layout.extra_tokens)


@pytest.mark.parametrize("task", TASKS)
def test_ignored_ids_change_nothing_wherever_they_stand(task: str) -> None:
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT)
    ignored = VOCAB["tasks"][task]["ignored_ids"]
    assert set(ignored) <= set(tokenizer.token_range("extra"))
    rows = golden_ids(tokenizer, result(CASES["tie_across_segment"], task)["tokens"])
    want = tokenizer.decode(rows)
    assert len(want.notes) == 3
    for token in tokenizer.token_range("extra"):
        between = np.full((*rows.shape[:2], 2 * rows.shape[2]), token)
        between[:, :, 1::2] = rows
        assert tokenizer.decode(between) == want


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["prep"] == "full"])
def test_preparing_notes_as_published(name: str) -> None:
    """Published preprocessing: sort, repair lengths, end overlaps."""
    raw = notes_to_array(golden_notes(CASES[name]["notes_in"]))
    assert_same_notes(array_to_notes(clean_notes(raw)), CASES[name]["notes"])


def test_notes_that_are_not_prepared_are_those_of_the_case() -> None:
    for case in CASES.values():
        assert case["prep"] in ("none", "full")
        assert case["prep"] == "full" or case["notes_in"] == case["notes"]


def events_and_ties(notes: list[Note], start: float) -> tuple[list[tuple[int, ...]], list[tuple[int, int]]]:
    """What one window of ``mt3_full_plus`` holds: (tick, drum, program, velocity, pitch) and ties."""
    tables = build_tables(get_task("mt3_full_plus"), SEGMENT, 16000)
    prepared = encoding.prepare_notes(notes_to_array(notes), tables)
    items = encoding.window_items(
        prepared, np.array([start]), np.array([start + SEGMENT / 16000]), tables
    ).tolist()
    events, ties = [], []
    for item in items:
        program, pitch = item >> encoding.PROGRAM_BIT & 255, item & 127
        if item & encoding.SECTIONS == encoding.TIE:
            ties.append((program, pitch))
        elif item & encoding.SECTIONS == encoding.BODY:
            tick, drum = item >> encoding.TICK_BIT & encoding.TICKS, item >> encoding.DRUM_BIT & 1
            events.append((tick, drum, program, item >> encoding.VELOCITY_BIT & 1, pitch))
    return events, ties


def ticked(events: list[list[Any]], start: float) -> list[tuple[int, ...]]:
    first = round(100 * start)
    return sorted((round(100 * time) - first, drum, *rest) for drum, program, time, velocity, pitch in events
                  for rest in [(program, velocity, pitch)])  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_events_and_ties_of_each_window(name: str) -> None:
    case = CASES[name]
    notes = golden_notes(case["notes"])
    for start, segment in zip(case["start_times"], case["segments"], strict=True):
        events, ties = events_and_ties(notes, start)
        assert events == ticked(segment["events"], start)
        assert ties == [tuple(tie) for tie in segment["ties"]]


@pytest.mark.parametrize("window", WINDOWS["windows"], ids=lambda window: str(window["start"]))
def test_events_and_ties_of_windows_anywhere(window: dict[str, Any]) -> None:
    events, ties = events_and_ties(golden_notes(CASES["random_band_10s"]["notes"]), window["start"])
    assert len(events) == window["n_events"]
    assert ties == [tuple(tie) for tie in window["ties"]]


@pytest.mark.parametrize("task", TASKS)
def test_encode(task: str) -> None:
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT)
    for name, case in CASES.items():
        published = result(case, task)
        expected = golden_ids(tokenizer, published["tokens"])
        ids = tokenizer.encode(golden_notes(case["notes"]), num_windows=len(case["start_times"]))
        if name != "too_long_truncates":
            np.testing.assert_array_equal(ids, expected, err_msg=name)
            continue
        assert tokenizer.truncated > 0
        for row, whole in zip(ids.reshape(-1, ids.shape[2]), expected.reshape(-1, ids.shape[2]), strict=True):
            end = int(np.argmax(row == tokenizer.eos_id))
            np.testing.assert_array_equal(row[:end], whole[:end])
            assert end > tokenizer.max_length - 5 or whole[end] == tokenizer.eos_id
            assert not row[end + 1 :].any()


@pytest.mark.parametrize("task", TASKS)
def test_decode(task: str) -> None:
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT)
    for name, case in CASES.items():
        published = result(case, task)
        decoded = tokenizer.decode(golden_ids(tokenizer, published["tokens"]))
        if name == "long_note_gt_10s":
            assert [(note.onset, note.offset) for note in decoded.notes] == [(0.2, 12.5)]
            assert not decoded.errors
            continue
        assert_same_notes(decoded.notes, published["notes"])
        assert decoded.errors == counted(published["note_err"], published["event_err"]), name


@pytest.mark.parametrize("window", WINDOWS["windows"], ids=lambda window: str(window["start"]))
def test_windows_at_any_start(window: dict[str, Any]) -> None:
    notes = notes_to_array(golden_notes(CASES["random_band_10s"]["notes"]))
    for task, tokens in window["tokens"].items():
        zeroed = task.endswith("_time_zeroed")
        tokenizer = NoteTokenizer.from_task(task.removesuffix("_time_zeroed"), segment_samples=SEGMENT)
        expected = golden_ids(tokenizer, [tokens])[0]
        end = window["start"] + SEGMENT / 16000
        near = notes[(notes["onset"] < end) & (notes["offset"] >= window["start"])]
        if zeroed:
            near["onset"] -= window["start"]
            near["offset"] -= window["start"]
        else:
            start_samples = [round(window["start"] * 16000)]
            ids = tokenizer.encode(notes, start_samples=start_samples)
            np.testing.assert_array_equal(ids[0], expected)
        # The window's own path ends overlaps; the case has none.
        np.testing.assert_array_equal(clean_notes(near)["offset"], near["offset"])
        label = tokenizer.encode_window(near[::-1], 0.0 if zeroed else window["start"])
        np.testing.assert_array_equal(label, expected[:, : label.shape[1]])
        assert not expected[:, label.shape[1] :].any()


@pytest.mark.parametrize("case", ERRORS["single"], ids=lambda case: str(case["name"]))
def test_malformed_windows(case: dict[str, Any]) -> None:
    tokenizer = NoteTokenizer.from_task(ERRORS["task"], segment_samples=SEGMENT)
    decoded = tokenizer.decode([[case["tokens"]]], start_samples=[round(case["start_time"] * 16000)])
    if case["name"] == "eos_before_tie":
        assert decoded.notes == []
        assert decoded.errors == {"Err/Missing tie": 1}
        return
    assert_same_notes(decoded.notes, case["notes"])
    assert decoded.errors == counted(case["err"], case["note_err"])
    # Every note the window leaves on is missed by a next window without ties; an unreadable one says nothing.
    start = round(case["start_time"] * 16000)
    then = [tokenizer.tie_id, tokenizer.eos_id]
    width = max(len(case["tokens"]), 2)
    rows = [[row + [0] * (width - len(row))] for row in (case["tokens"], then)]
    after = tokenizer.decode(rows, start_samples=[start, start + SEGMENT]).errors - decoded.errors
    assert after == counted({"Err/merging segment tie": len(case["last_activity"])})


WINDOW_ERRORS = {
    # The vectors of several windows hold the errors of merging only; these are counted within a window.
    "bad_segment_between": {"Err/Missing tie": 1},
    "tie_missing_but_offset_present": {"Err/Note off without note on": 1},
}
OWN_MERGES = {
    ("tie_missing_force_off", False): ([(1.0, 2.0479375, 60), (2.55, 2.56, 64)], 1),
    ("tie_missing_but_offset_present", False): ([(1.0, 2.0479375, 60)], 1),
    ("forced_off_vs_tick0_onset_rounded_down", True): ([(5.1, 6.14, 60), (6.14, 6.64, 60)], 1),
}


@pytest.mark.parametrize("case", ERRORS["multi_segment"], ids=lambda case: f"{case['name']}-{case['force']}")
def test_merging_windows(case: dict[str, Any]) -> None:
    tokenizer = NoteTokenizer.from_task(ERRORS["task"], segment_samples=SEGMENT)
    width = max(map(len, case["tokens"]))
    decoded = tokenizer.decode([[tokens + [0] * (width - len(tokens))] for tokens in case["tokens"]])
    own = OWN_MERGES.get((case["name"], case["force"]))
    if own is None:
        assert_same_notes(decoded.notes, case["notes"])
        assert decoded.errors == counted(case["note_err"], WINDOW_ERRORS.get(case["name"], {}))
    else:
        notes, untied = own
        assert [(n.onset, round(n.offset, 9), n.pitch) for n in decoded.notes] == notes
        assert decoded.errors["Err/merging segment tie"] == untied
