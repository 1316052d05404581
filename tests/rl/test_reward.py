"""Rewards on cases made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from amt.config.rl import RL_REWARDS
from amt.notes import Note, notes_to_array
from amt.rl.reward import Reward, token_accuracy
from amt.tokenizer import NoteTokenizer

VOICE, BASS = 100, 33
SECONDS = 1.5


def tokenizer(task: str = "mt3_full_plus") -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=24000, max_length=128)


def row(tok: NoteTokenizer, *notes: Note, start: float = 0.0) -> list[int]:
    """The label of one window, without padding."""
    return [int(token) for token in tok.encode_window(notes_to_array(notes), start)[0]]


def worth(name: str, sample: list[int], label: list[int], octave_free: bool = False) -> float:
    [value] = Reward(name, tokenizer())([sample], [label], [octave_free])
    return value


LABEL = (
    Note(0.2, 0.5, 60, VOICE),
    Note(0.5, 0.9, 62, VOICE),
    Note(0.9, 1.2, 64, VOICE),
    Note(0.3, 1.0, 40, BASS),
)


@pytest.mark.parametrize("name", RL_REWARDS)
def test_the_label_itself_is_worth_one(name: str) -> None:
    tok = tokenizer()
    crossing = (Note(-0.5, 0.4, 50, BASS), Note(1.2, 2.5, 67, VOICE), *LABEL)
    drums = (Note(0.1, 0.11, 36, 0, True), Note(0.6, 0.61, 38, 0, True))
    labels = [row(tok, *LABEL), row(tok), row(tok, *crossing), row(tok, *drums)]
    assert Reward(name, tok)(labels, labels) == [1.0] * 4


def test_token_accuracy_is_over_the_longer_sequence() -> None:
    assert token_accuracy([5, 6, 7, 1], [5, 6, 7, 1]) == 1.0
    assert token_accuracy([5, 9, 7, 1], [5, 6, 7, 1]) == 0.75
    assert token_accuracy([5, 6, 1], [5, 6, 7, 1]) == 0.5
    assert token_accuracy([5, 6, 7, 8, 1], [5, 1]) == 0.2
    assert token_accuracy([], []) == 1.0
    assert token_accuracy([], [1]) == 0.0


def test_token_accuracy_compares_pitch_classes_where_the_octave_is_not_known() -> None:
    label = row(tokenizer(), *LABEL)
    up = row(tokenizer(), *(note._replace(pitch=note.pitch + 12) for note in LABEL))
    assert worth("token_acc", up, label) < 1
    assert worth("token_acc", up, label, octave_free=True) == 1.0
    other = row(tokenizer(), *moved(pitch=63))
    assert worth("token_acc", other, label, octave_free=True) < 1


def moved(**changes: float) -> tuple[Note, ...]:
    """LABEL with its second note changed."""
    first, second, *rest = LABEL
    return (first, second._replace(**changes), *rest)


@pytest.mark.parametrize(
    ("sample", "onset_f", "note_f"),
    [
        pytest.param(LABEL[1:], 2 * 3 / 7, 2 * 3 / 7, id="a note missing"),
        pytest.param((*LABEL, Note(0.1, 0.15, 70, VOICE)), 2 * 4 / 9, 2 * 4 / 9, id="a note too many"),
        pytest.param(moved(pitch=63), 0.75, 0.75, id="a wrong pitch"),
        pytest.param(moved(program=BASS), 0.75, 0.75, id="a wrong instrument"),
        pytest.param(moved(onset=0.54), 1.0, 1.0, id="40 ms late"),
        pytest.param(moved(onset=0.56), 0.75, 0.75, id="60 ms late"),
        pytest.param(moved(offset=0.7), 1.0, 0.75, id="ends early"),
        pytest.param(moved(offset=3.0), 1.0, 0.75, id="sounds on"),
        pytest.param((), 0.0, 0.0, id="nothing"),
    ],
)
def test_notes_by_hand(sample: tuple[Note, ...], onset_f: float, note_f: float) -> None:
    tok = tokenizer()
    label, drawn = row(tok, *LABEL), row(tok, *sample)
    assert worth("onset_f", drawn, label) == pytest.approx(onset_f)
    assert worth("note_f", drawn, label) == pytest.approx(note_f)


def test_nothing_where_nothing_is() -> None:
    tok = tokenizer()
    for name in ("onset_f", "note_f"):
        assert worth(name, row(tok), row(tok)) == 1.0
        assert worth(name, row(tok, *LABEL), row(tok)) == 0.0


def test_a_tie_is_no_onset_but_a_note_with_an_end() -> None:
    tok = tokenizer()
    label = row(tok, Note(-0.3, 0.6, 60, VOICE), Note(0.8, 1.1, 62, VOICE))
    without = row(tok, Note(0.8, 1.1, 62, VOICE))
    early = row(tok, Note(-0.3, 0.2, 60, VOICE), Note(0.8, 1.1, 62, VOICE))
    begun = row(tok, Note(0.0, 0.6, 60, VOICE), Note(0.8, 1.1, 62, VOICE))
    assert worth("onset_f", without, label) == 1.0
    assert worth("onset_f", early, label) == 1.0
    assert worth("onset_f", begun, label) == pytest.approx(2 / 3), "it would begin the note again"
    assert worth("note_f", without, label) == pytest.approx(2 / 3)
    assert worth("note_f", early, label) == pytest.approx(0.5)


def test_octaves_are_not_looked_at_where_they_are_not_known() -> None:
    tok = tokenizer()
    label = row(tok, *LABEL)
    octave = row(tok, *(note._replace(pitch=note.pitch + 12) for note in LABEL))
    fifth = row(tok, *(note._replace(pitch=note.pitch + 7) for note in LABEL))
    assert worth("onset_f", octave, label) == 0.0
    assert worth("onset_f", octave, label, octave_free=True) == 1.0
    assert worth("onset_f", fifth, label, octave_free=True) == 0.0
    drums = row(tok, Note(0.1, 0.11, 36, 0, True))
    other = row(tok, Note(0.1, 0.11, 48, 0, True))
    assert worth("onset_f", other, drums, octave_free=True) == 0.0, "drums have no octaves"


@pytest.mark.parametrize("name", RL_REWARDS)
def test_any_tokens_have_a_reward(name: str) -> None:
    tok, rng = tokenizer(), np.random.default_rng(0)
    label = row(tok, *LABEL)
    samples = [rng.integers(0, tok.vocab_size, size=length).tolist() for length in range(40)]
    rewards = Reward(name, tok)(samples, [label] * 40)
    assert all(0.0 <= value <= 1.0 for value in rewards)
    assert max(rewards) < 0.5
