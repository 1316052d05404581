"""The frame head's second opinion on sung notes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from amt.inference.pitch_check import PitchEvidence, join_notes, voice_log_probabilities
from amt.notes import Note

FRAMES, STEP = 40, 600


def opinion(pitch: int, sure: float = 3.0) -> np.ndarray:
    scores = np.full((FRAMES, 88), -5.0, np.float32)
    scores[:, pitch - 21] += sure
    return scores


def test_a_sung_note_takes_the_pitch_that_is_likelier_by_the_margin() -> None:
    evidence = PitchEvidence(48000, 24000, STEP)
    evidence.add(0, opinion(72))
    evidence.add(24000, opinion(60))
    notes = [
        Note(0.2, 0.6, 60, 100),
        Note(0.2, 0.6, 60, 0),
        Note(1.9, 2.4, 60, 100),
        Note(0.3, 0.31, 38, 128, True),
    ]
    assert [n.pitch for n in evidence.correct(notes, 1.0, 16000)] == [72, 60, 60, 38]
    assert [n.pitch for n in evidence.correct(notes, 4.0, 16000)] == [60, 60, 60, 38]


def test_windows_that_hear_a_frame_are_averaged() -> None:
    evidence = PitchEvidence(48000, 24000, STEP)
    evidence.add(0, opinion(72, 3.0))
    evidence.add(6000, opinion(65, 9.0))
    note = Note(0.6, 0.9, 60, 100)
    assert evidence.correct([note], 1.0, 16000)[0].pitch == 65


def test_nothing_heard_changes_nothing() -> None:
    evidence = PitchEvidence(16000, 24000, STEP)
    notes = [Note(0.2, 0.6, 60, 100), Note(0.5, 0.6, 120, 100)]
    assert evidence.correct(notes, 0.5, 16000) == notes


def test_the_voice_is_found_among_the_groups() -> None:
    logits = torch.zeros(2, FRAMES, 176 + 90)
    logits[..., 176 + 1 + 40] = 10.0
    chosen = voice_log_probabilities(logits, ("pitched", "voice"))
    assert chosen.shape == (2, FRAMES, 88)
    assert (chosen.argmax(-1) == 40).all()


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([(1.0, 1.02), (1.02, 2.0)], [(1.0, 2.0)]),
        ([(1.0, 2.0), (1.01, 1.04)], [(1.0, 2.0)]),
        ([(1.0, 1.5), (1.2, 2.0)], [(1.0, 1.2), (1.2, 2.0)]),
        ([(1.0, 1.02), (1.03, 2.0)], [(1.0, 1.02), (1.03, 2.0)]),
        ([(1.0, 1.5), (1.5, 2.0)], [(1.0, 1.5), (1.5, 2.0)]),
        ([(1.0, 1.02), (1.02, 1.04), (1.04, 1.3), (1.3, 2.0)], [(1.0, 1.3), (1.3, 2.0)]),
    ],
)
def test_parts_of_a_note_are_joined(
    parts: list[tuple[float, float]], whole: list[tuple[float, float]]
) -> None:
    notes = [Note(onset, offset, 60, 100) for onset, offset in parts]
    others = [Note(1.0, 3.0, 61, 100), Note(1.0, 3.0, 60, 101)]
    joined, waiting = join_notes([*notes, *others], float("inf"))
    assert not waiting
    assert sorted(joined) == sorted([*(Note(onset, offset, 60, 100) for onset, offset in whole), *others])


def test_a_note_waits_until_nothing_can_meet_it() -> None:
    notes = [Note(1.0, 1.5, 60, 100), Note(1.2, 2.0, 60, 100), Note(1.98, 1.99, 62, 100)]
    joined, waiting = join_notes(notes, 2.0)
    assert joined == [Note(1.0, 1.2, 60, 100), Note(1.2, 2.0, 60, 100)]
    assert waiting == [notes[2]], "what begins at 2.0 may be the same note"
    assert join_notes(notes, 1.9) == ([Note(1.0, 1.2, 60, 100)], notes[1:])
