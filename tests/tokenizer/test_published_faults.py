"""Faults of the published tokens (YourMT3+), one test for each: here the right thing happens."""

from __future__ import annotations

import numpy as np
import pytest

from amt.notes import Note, notes_to_array
from amt.tokenizer import NoteTokenizer

SEGMENT = 32767
SECONDS = SEGMENT / 16000


def make_tokenizer(task: str = "mt3_full_plus", max_length: int = 1024) -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=SEGMENT, max_length=max_length)


def ids_of(tokenizer: NoteTokenizer, *windows: str) -> list[list[list[int]]]:
    """Windows written in words."""
    known = {word: token for token, word in enumerate(tokenizer.describe(range(tokenizer.vocab_size)))}
    rows = [[known[word] for word in window.split(", ")] for window in windows]
    width = max(map(len, rows))
    return [[row + [0] * (width - len(row))] for row in rows]


def spans(notes: list[Note]) -> list[tuple[float, float, int]]:
    return [(round(n.onset, 6), round(n.offset, 6), n.pitch) for n in notes]


@pytest.mark.parametrize("length", [9.9, 10.0, 10.1, 45.0])
def test_notes_over_10_s_keep_their_length(length: float) -> None:
    """Published: cut to 10 ms and counted as an error."""
    tokenizer = make_tokenizer()
    note = Note(0.5, 0.5 + length, 60, 40)
    decoded = tokenizer.decode(tokenizer.encode([note], num_windows=int((0.5 + length) / SECONDS) + 1))
    assert spans(decoded.notes) == [(0.5, round(0.5 + length, 6), 60)]
    assert not decoded.errors


def test_onset_on_a_first_tick_survives_a_forced_end() -> None:
    """An onset on the first tick of a window may be rounded to just before the window's start. Published:
    the forced end of the note before then cuts the new one to 10 ms."""
    tokenizer = make_tokenizer()
    first = "tie, shift 100, program 0, velocity 1, pitch 60, EOS"
    second = "tie, program 0, velocity 1, pitch 60, shift 50, velocity 0, pitch 60, EOS"
    for start in (32767, 3 * 32767):  # steps 205 (rounded up) and 614 (rounded down)
        begin = round(start / 160) / 100
        decoded = tokenizer.decode(ids_of(tokenizer, first, second), [start - 32767, start])
        assert len(decoded.notes) == 2
        assert spans(decoded.notes)[1] == (begin, round(begin + 0.5, 6), 60)
        assert decoded.errors == {"Err/merging segment tie": 1}


@pytest.mark.parametrize("task", ["mt3_full_plus", "mc13_256", "singing_v1"])
def test_over_long_sequence_is_cut_between_events_ends_with_eos_and_is_counted(task: str) -> None:
    """Published: cut anywhere, EOS lost, nothing counted."""
    rng = np.random.default_rng(1)
    notes = [
        Note(on, on + 0.03, int(pitch), 33)
        for on, pitch in zip(np.sort(rng.uniform(0, 1.9, 30)), rng.integers(30, 90, 30), strict=True)
    ]
    whole = make_tokenizer(task)
    complete = whole.encode(notes, num_windows=1)[0].tolist()
    assert whole.truncated == 0
    for max_length in range(8, 40):
        tokenizer = make_tokenizer(task, max_length)
        cut = tokenizer.encode(notes, num_windows=1)[0].tolist()
        assert tokenizer.truncated == 1
        for row, full in zip(cut, complete, strict=True):
            end = row.index(tokenizer.eos_id)
            assert row[:end] == full[:end]
            assert not any(row[end + 1 :])
            # What stands last is a whole event: its pitch, or the tie token of a sequence without one.
            last = tokenizer.describe([row[end - 1]])[0].split()[0]
            assert last in ("pitch", "tie")


def test_eos_ends_a_sequence_anywhere() -> None:
    """Published: ignored before the tie token, so a network that says nothing at once is read on."""
    tokenizer = make_tokenizer()
    for window in ("EOS, tie, program 0, velocity 1, pitch 60", "program 0, EOS, pitch 60, tie, EOS"):
        decoded = tokenizer.decode(ids_of(tokenizer, window))
        assert decoded.notes == []
        assert decoded.errors == {"Err/Missing tie": 1}
    later = "tie, shift 10, program 0, velocity 1, pitch 60, shift 20, velocity 0, pitch 60, EOS, pitch 61"
    assert spans(tokenizer.decode(ids_of(tokenizer, later)).notes) == [(0.1, 0.2, 60)]


def test_a_tie_can_start_a_note_when_asked() -> None:
    """Published: a tied note that was not open before creates nothing."""
    tokenizer = make_tokenizer()
    ids = ids_of(tokenizer, "tie, EOS", "program 0, pitch 60, tie, shift 30, velocity 0, pitch 60, EOS")
    assert tokenizer.decode(ids).notes == []
    started = tokenizer.decode(ids, start_from_ties=True)
    assert spans(started.notes) == [(2.047938, 2.35, 60)]


def test_one_bad_window_does_not_end_what_sounds_through_it() -> None:
    """Published: a window without a tie token drops the notes that go on in it."""
    tokenizer = make_tokenizer()
    start = "tie, shift 100, program 0, velocity 1, pitch 60, EOS"
    end = "program 0, pitch 60, tie, shift 50, velocity 0, pitch 60, EOS"
    decoded = tokenizer.decode(ids_of(tokenizer, start, "shift 3, pitch 60, EOS", end))
    assert spans(decoded.notes) == [(1.0, 4.6, 60)]


@pytest.mark.parametrize("segment", [16000, 49152, 65534, 98301])
def test_windows_of_any_length_decode_where_they_start(segment: int) -> None:
    """Published: window starts of validation are those of 32767 samples whatever the input length."""
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=segment)
    notes = [Note(0.37 * i, 0.37 * i + 0.3, 50 + i, 0) for i in range(30)]
    ids = tokenizer.encode(notes, num_windows=int(12 * 16000 / segment) + 1)
    want = [(round(n.onset, 6), round(n.offset, 6), n.pitch) for n in notes]
    assert spans(tokenizer.decode(ids).notes) == want


def test_two_programs_of_one_class_are_one_instrument_where_classes_merge() -> None:
    """Published: states compare raw programs, so two pianos tie and end each other's notes wrongly."""
    tokenizer = make_tokenizer("mc13_fsingle")
    notes = tokenizer.target_notes([Note(0.5, 2.5, 60, 0), Note(1.0, 2.2, 60, 1)])
    decoded = tokenizer.decode(tokenizer.encode(notes, num_windows=2))
    assert not decoded.errors
    assert spans(decoded.notes) == [(0.5, 1.0, 60), (1.0, 2.2, 60)]


def test_zero_length_notes_do_not_break_labels() -> None:
    """Published: label building raises."""
    tokenizer = make_tokenizer()
    notes = notes_to_array([Note(0.5, 0.5, 60), Note(0.7, 0.6, 62), Note(0.8, 0.8, 36, 128, True)])
    got = spans(tokenizer.decode(tokenizer.encode(notes, num_windows=1)).notes)
    assert got == [(0.5, 0.51, 60), (0.7, 0.71, 62), (0.8, 0.81, 36)]
