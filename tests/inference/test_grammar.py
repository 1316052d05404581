"""Constrained decoding: what the tokenizer writes is allowed, what is allowed decodes without errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from amt.inference.grammar import TokenGrammar, find_instruments
from amt.notes import Note
from amt.tokenizer import NoteTokenizer

CPU = torch.device("cpu")
TASKS = ["mc13_fsingle", "mt3_full_plus", "mc13", "singing_v1"]


def make(task: str, **options: object) -> tuple[NoteTokenizer, TokenGrammar]:
    tokenizer = NoteTokenizer.from_task(task, segment_samples=16000, max_length=200)
    return tokenizer, TokenGrammar(tokenizer, CPU, **options)  # type: ignore[arg-type]


def random_notes(seed: int) -> list[Note]:
    random = np.random.default_rng(seed)
    notes = []
    for _ in range(60):
        onset, pitch = float(random.uniform(0, 8)), int(random.integers(40, 80))
        program = int(random.choice([0, 33, 48, 56, 73, 100]))
        notes.append(Note(onset, onset + float(random.uniform(0.05, 1.5)), pitch, program))
    drums = {(round(float(random.uniform(0, 8)), 1), int(random.choice([36, 38, 42]))) for _ in range(20)}
    return notes + [Note(time, time + 0.01, pitch, 128, True) for time, pitch in sorted(drums)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("seed", range(3))
def test_labels_are_allowed(task: str, seed: int) -> None:
    tokenizer, grammar = make(task)
    ids = torch.from_numpy(tokenizer.encode(tokenizer.target_notes(random_notes(seed)), num_windows=9))
    rows = ids.flatten(0, 1)
    grammar.begin(torch.arange(len(rows)))
    for step in range(rows.shape[1]):
        tokens = rows[:, step]
        fine = grammar.allowed()[torch.arange(len(rows)), tokens]
        for row in (~fine).nonzero()[:, 0].tolist():
            raise AssertionError(tokenizer.describe(rows[row, : step + 1].tolist()))
        grammar.advance(tokens)


def wander(grammar: TokenGrammar, rows: int, steps: int, seed: int) -> torch.Tensor:
    """Random allowed tokens (rows, steps); EOS is unlikely."""
    generator = torch.Generator().manual_seed(seed)
    grammar.begin(torch.arange(rows))
    ids = []
    for _ in range(steps):
        allowed = grammar.allowed()
        assert allowed.any(1).all(), "a dead end"
        weights = allowed * torch.rand(allowed.shape, generator=generator)
        weights[:, 1] *= 0.02
        weights[:, 3:].mul_(torch.rand(weights[:, 3:].shape, generator=generator))
        # Mostly near shifts and a tie soon, so that a walk gets far.
        ids.append(weights.argmax(1))
        grammar.advance(ids[-1])
    return torch.stack(ids, 1)


@pytest.mark.parametrize("task", TASKS)
def test_allowed_sequences_decode_without_errors(task: str) -> None:
    tokenizer, grammar = make(task)
    channels = tokenizer.num_channels
    ids = wander(grammar, 4 * channels, 150, 5).view(4, channels, 150).numpy()
    for window in ids:
        errors = tokenizer.decode(window[None], [0], start_from_ties=True).errors
        inside = {name: count for name, count in errors.items() if name != "Err/merging segment tie"}
        if not (window == 1).any(1).all():
            inside.pop("Err/Missing tie", None)  # a walk that had not left its ties
        assert not inside, inside


def test_instruments() -> None:
    tokenizer, _ = make("mc13_fsingle")
    assert find_instruments(tokenizer, ["drums", "0"]) == {128, 0}
    bass = find_instruments(tokenizer, ["bass"])
    assert 33 in bass
    with pytest.raises(ValueError, match="unknown instrument 'Basss'"):
        find_instruments(tokenizer, ["Basss"])
    single = NoteTokenizer.from_task("singing_v1", segment_samples=16000)
    assert find_instruments(single, ["drums"]) == {128}
    voice = NoteTokenizer.from_task("mc13_fsingle_vocal", segment_samples=16000)
    with pytest.raises(ValueError, match=r"writes none of them, but Singing Voice$"):
        find_instruments(voice, ["Bass"])
    grammar = TokenGrammar(tokenizer, CPU, bass)
    ids = wander(grammar, 8, 80, 2)
    programs = tokenizer.token_range("program")
    written = {token - programs.start for token in ids.flatten().tolist() if token in programs}
    assert written <= bass
    assert written
    assert not any(token in tokenizer.token_range("drum") for token in ids.flatten().tolist())


def test_channels_write_their_own_instruments() -> None:
    tokenizer, grammar = make("mc13", programs=frozenset([128]))
    ids = wander(grammar, 2 * tokenizer.num_channels, 40, 1).view(2, tokenizer.num_channels, 40)
    drums = tokenizer.task.channels.index("Drums")
    for channel in range(tokenizer.num_channels):
        found = any(token in tokenizer.token_range("drum") for token in ids[:, channel].flatten().tolist())
        assert found == (channel == drums)
        if channel != drums:
            assert (ids[:, channel, :2] == torch.tensor([tokenizer.tie_id, tokenizer.eos_id])).all()


def test_subtasks_limit_instruments() -> None:
    tokenizer, grammar = make("singing_v1", subtask="singing-only")
    ids = wander(grammar, 8, 60, 3)
    programs = tokenizer.token_range("program")
    written = {token - programs.start for token in ids.flatten().tolist() if token in programs}
    assert written <= {100, 101}


def test_rows_come_and_go() -> None:
    tokenizer, grammar = make("mc13")
    rows = torch.from_numpy(tokenizer.encode(tokenizer.target_notes(random_notes(1)), num_windows=9)).flatten(
        0, 1
    )
    alone, channels = grammar, tokenizer.num_channels
    numbers = torch.arange(30)
    alone.begin(numbers)
    for step in range(6):
        alone.advance(rows[:30, step])
    alone.replace(torch.tensor([2, 5]), torch.tensor([40, 41]))
    alone.advance(torch.cat([rows[:30]])[:, 6].index_put((torch.tensor([2, 5]),), rows[[40, 41], 0]))
    alone.keep(torch.tensor([1, 2, 9]))
    got = alone.allowed()
    _, fresh = make("mc13")
    for place, (row, read) in enumerate([(1, 7), (40, 1), (9, 7)]):
        fresh.begin(torch.tensor([row]))
        for step in range(read):
            fresh.advance(rows[row, step][None])
        assert torch.equal(fresh.allowed()[0], got[place]), (row, channels)
