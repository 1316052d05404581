"""Sub-tasks: task tokens in front of a sequence, and the notes they ask for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from amt.config.tasks import get_task, list_tasks
from amt.notes import Note, array_to_notes, notes_to_array
from amt.tokenizer import NoteTokenizer

NOTES = [
    Note(0.1, 0.6, 60, 0),
    Note(0.2, 0.7, 64, 100),
    Note(0.3, 0.31, 36, 128, True),
    Note(1.9, 2.4, 67, 101),
]
PROGRAMS = {
    ("singing_v1", "default"): {0, 100, 101, 128},
    ("singing_v1", "singing-only"): {100, 101},
    ("singing_drum_v1", "default"): {0, 100, 101, 128},
    ("singing_drum_v1", "singing-only"): {100, 101},
    ("singing_drum_v1", "drum-only"): {128},
    ("exc_v1", "default"): {0, 100, 101, 128},
}


def make_tokenizer(task: str) -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=32767)


def test_the_tasks_with_sub_tasks() -> None:
    assert {(task, name) for task in list_tasks() for name in get_task(task).subtasks} == set(PROGRAMS)


@pytest.mark.parametrize(("task", "subtask"), sorted(PROGRAMS))
def test_a_sub_task_is_announced_and_holds_only_its_notes(task: str, subtask: str) -> None:
    tokenizer = make_tokenizer(task)
    notes = tokenizer.target_notes(NOTES, subtask)
    assert set(notes["program"].tolist()) == PROGRAMS[task, subtask]
    np.testing.assert_array_equal(tokenizer.subtask_notes(tokenizer.target_notes(NOTES), subtask), notes)
    prefix = tokenizer.prefix_ids(subtask)
    ids = tokenizer.encode(notes, num_windows=2, subtask=subtask)
    assert ids.shape == (2, 1, tokenizer.sequence_length)
    assert ids.shape[2] == tokenizer.max_length + len(prefix)
    assert (ids[:, 0, : len(prefix)] == prefix).all()
    plain = tokenizer.encode(notes, num_windows=2)
    np.testing.assert_array_equal(ids[:, :, len(prefix) :], plain)
    # The state machine reads sequences with and without task tokens alike.
    assert tokenizer.decode(ids) == tokenizer.decode(plain)
    words = tokenizer.describe(prefix)
    assert tuple(words) == get_task(task).subtasks[subtask].tokens
    near = notes[notes["onset"] < 2.04]
    label = tokenizer.encode_window(near, subtask=subtask)
    np.testing.assert_array_equal(label[0], ids[0, 0, : label.shape[1]])


def test_published_prefixes() -> None:
    assert make_tokenizer("singing_v1").prefix_ids("default") == [5, 3]
    assert make_tokenizer("singing_v1").prefix_ids("singing-only") == [4, 3]
    tokenizer = make_tokenizer("singing_drum_v1")
    assert [tokenizer.prefix_ids(name) for name in tokenizer.prefixes] == [[6, 3], [4, 3], [5, 3]]
    assert tokenizer.prefix_ids(None) == []


def test_a_sequence_of_full_length_keeps_its_notes_behind_the_prefix() -> None:
    tokenizer = NoteTokenizer.from_task("singing_v1", segment_samples=32767, max_length=12)
    notes = [Note(0.1 * i, 0.1 * i + 0.05, 60 + i, 100) for i in range(1, 15)]
    row = tokenizer.encode(notes, num_windows=1, subtask="singing-only")[0, 0].tolist()
    assert row[:2] == [4, 3]
    assert row[2:].index(tokenizer.eos_id) < 12
    assert row[2:] == tokenizer.encode(notes, num_windows=1)[0, 0].tolist()


def test_tasks_without_sub_tasks_are_untouched() -> None:
    tokenizer = make_tokenizer("mt3_full_plus")
    assert (tokenizer.prefix_length, tokenizer.sequence_length) == (0, tokenizer.max_length)
    notes = tokenizer.target_notes(NOTES)
    assert array_to_notes(tokenizer.target_notes(NOTES, None)) == array_to_notes(notes)
    assert tokenizer.subtask_notes(notes, None) is notes
    with pytest.raises(ValueError, match="unknown sub-task of mt3_full_plus 'singing-only'; known: none"):
        tokenizer.encode(notes, num_windows=1, subtask="singing-only")
    with pytest.raises(ValueError, match="did you mean 'drum-only'"):
        make_tokenizer("singing_drum_v1").target_notes(notes_to_array(NOTES), "drums-only")


def test_programs_without_a_class() -> None:
    outside = set(range(96, 100)) | set(range(102, 128))
    assert make_tokenizer("mc13_256").unclassed_programs == outside
    assert make_tokenizer("mt3_full_plus").unclassed_programs == outside
    assert make_tokenizer("mt3_midi").unclassed_programs == outside | {100, 101}
    assert make_tokenizer("mc13_fsingle_vocal").unclassed_programs == set()


def test_the_table_of_the_documentation() -> None:
    """docs/tokens.md: tasks, sub-tasks, task tokens and ids are those of the table."""
    text = (Path(__file__).parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")
    table = text[text.index("| task | sub-task |") :]
    told, task = {}, ""
    for line in table[: table.index("\n\n")].splitlines()[2:]:
        name, subtask, tokens, ids = (cell.replace("`", "").strip() for cell in line.split("|")[1:5])
        task = name or task
        told[task, subtask] = tokens.split(", "), [int(token) for token in ids.split(", ")]
    assert set(told) == set(PROGRAMS)
    for (task, subtask), (tokens, ids) in told.items():
        tokenizer = make_tokenizer(task)
        assert tokenizer.prefix_ids(subtask) == ids
        assert tokenizer.describe(ids) == tokens
