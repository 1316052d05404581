"""Sequences that no encoder wrote: the state machine reads them all, and every note ends after it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.config.tasks import list_tasks
from amt.tokenizer import NoteTokenizer


def make_tokenizer(task: str, segment: int = 32767, max_length: int = 2048) -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=segment, max_length=max_length)


def test_any_sequence_can_be_decoded() -> None:
    rng = np.random.default_rng(11)
    for task, size in (("mc13_fsingle", 5), ("singing_drum_v1", 3), ("mc13_256", 2)):
        tokenizer = make_tokenizer(task, 65534)
        kinds = [list(tokenizer.token_range(k)) for k in ("shift", "pitch", "velocity", "tie", "program")]
        for number in range(50 * size):
            shape = (rng.integers(1, 4), tokenizer.num_channels, 30)
            if number % 2:
                ids = rng.integers(-3, tokenizer.vocab_size + 5, shape)
            else:
                # Sequences that look real for longer: few programs and pitches, a tie somewhere.
                choice = rng.integers(0, 5, shape)
                ids = np.array([[[rng.choice(kinds[k][:4]) for k in row] for row in w] for w in choice])
                ids[:, :, rng.integers(0, 5)] = tokenizer.tie_id
            decoded = tokenizer.decode(ids, start_from_ties=bool(number % 3))
            assert all(note.offset > note.onset >= 0 for note in decoded.notes)
            assert all(0 <= note.pitch < 128 for note in decoded.notes)


@pytest.mark.slow
@pytest.mark.parametrize("task", list_tasks())
def test_ten_thousand_sequences_of_every_task_can_be_decoded_and_written_again(task: str) -> None:
    """Noise, and few words in any order: back to back, overlapping, and with ties that start notes."""
    tokenizer = make_tokenizer(task, max_length=256)
    rng = np.random.default_rng(17)
    ranges = {kind: list(tokenizer.token_range(kind)) for kind in ("shift", "pitch", "program", "drum")}
    words = [*ranges["shift"][:6], *ranges["pitch"][60:63], *ranges["program"][:2], *ranges["drum"][36:38]]
    words += [*tokenizer.token_range("velocity"), tokenizer.tie_id, 0, 1, 2]
    shape = (4, tokenizer.num_channels, 24)
    starts = np.arange(4) * (tokenizer.segment_samples // 2)
    seams = np.concatenate([[0], starts[1:] + tokenizer.segment_samples // 4])
    for number in range(10_000 // (shape[0] * shape[1]) + 1):
        ids = rng.choice(words, shape) if number % 4 else rng.integers(-5, tokenizer.vocab_size + 5, shape)
        if number % 4 > 1:
            ids[:, :, 0] = tokenizer.tie_id
        if number % 4 == 3:
            decoded = tokenizer.decode(ids, starts, seams=seams, start_from_ties=bool(number % 8 > 3))
        else:
            decoded = tokenizer.decode(ids, start_from_ties=bool(number % 8 > 3))
        assert all(note.offset > note.onset >= 0 for note in decoded.notes)
        assert all(0 <= note.pitch < 128 and 0 <= note.program <= 128 for note in decoded.notes)
        if number % 10 == 0:
            tokenizer.encode(tokenizer.target_notes(decoded.notes), num_windows=4)


def test_random_sequences_of_overlapping_windows_never_raise() -> None:
    tokenizer = make_tokenizer("mc13_fsingle", 24000)
    rng = np.random.default_rng(5)
    pitches = tokenizer.token_range("pitch")
    likely = [
        tokenizer.tie_id,
        *tokenizer.token_range("velocity"),
        *pitches[60:63],
        *tokenizer.token_range("shift"),
    ]
    for _ in range(300):
        ids = rng.integers(0, tokenizer.vocab_size, (4, 1, 40))
        usual = rng.random(ids.shape) < 0.8
        ids[usual] = rng.choice(likely, int(usual.sum()))
        starts = np.arange(4) * 12000
        notes = tokenizer.decode(ids, starts, seams=np.maximum(starts + 2400, 0) * (starts > 0)).notes
        assert all(note.offset > note.onset >= 0 for note in notes)


@st.composite
def any_sequences(draw: st.DrawFn) -> tuple[str, Any, bool]:
    """A task and windows of ids: noise inside and outside the vocabulary, or words in a likely order."""
    task = draw(st.sampled_from(list_tasks()))
    tokenizer = make_tokenizer(task, 65534)
    ids = st.integers(-3, tokenizer.vocab_size + 3)
    kinds = [tokenizer.token_range(kind) for kind in ("shift", "pitch", "velocity", "tie", "program", "drum")]
    likely = st.one_of(*[st.sampled_from(kind[60:62] or kind) for kind in kinds], st.just(1))
    tokens_of = (ids, likely, st.one_of(ids, likely))[draw(st.integers(0, 2))]
    row = st.lists(tokens_of, max_size=25)
    windows = draw(st.integers(1, 3))
    rows = [[draw(row) for _ in range(tokenizer.num_channels)] for _ in range(windows)]
    opened = draw(st.booleans())
    array = np.zeros((windows, tokenizer.num_channels, 27), dtype=np.int64)
    for window in range(windows):
        for channel in range(tokenizer.num_channels):
            tokens = ([tokenizer.tie_id] if opened else []) + rows[window][channel]
            array[window, channel, : len(tokens)] = tokens
    return task, array, draw(st.booleans())


@given(any_sequences())
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_any_task_gives_notes_that_end_after_they_start(case: tuple[str, Any, bool]) -> None:
    task, ids, start_from_ties = case
    decoded = make_tokenizer(task, 65534).decode(ids, start_from_ties=start_from_ties)
    assert all(note.offset > note.onset >= 0 for note in decoded.notes)
    assert all(0 <= note.pitch < 128 and 0 <= note.program <= 128 for note in decoded.notes)
    assert all(count > 0 for count in decoded.errors.values())
