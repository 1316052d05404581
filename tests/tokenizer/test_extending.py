"""docs/extending.md, followed to the letter: a task is one row, and then it works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amt
from amt.config import vocabularies
from amt.config.tasks import Task
from amt.evaluation import score_notes
from amt.notes import Note
from amt.tokenizer import NoteTokenizer

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PLACE = '        replace(_MT3_FULL_PLUS, name="mt3_full_plus_all_cross_final"),\n'
CHECK = """
from amt.config import get_task, list_tasks
assert "piano_bass" in list_tasks()
assert get_task("piano_bass").default_subtask == "default"
assert [(n.pitch, n.program) for n in tok.decode(both).notes] == [(60, 0), (40, 32)]
assert [(n.pitch, n.program) for n in tok.decode(bass).notes] == [(40, 32)]
assert tok.vocab_size == 596 + 2
assert not tok.decode(both).errors
"""


def block_after(comment: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(re.escape(f"<!-- {comment} -->\n```python\n") + "(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    return found[1]


def test_a_task_is_one_row(tmp_path: Path) -> None:
    """A copy of the package gets the row of the page where the page says; the page's code then runs."""
    shutil.copytree(Path(amt.__file__).parent, tmp_path / "amt", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "amt" / "config" / "tasks.py"
    source = table.read_text(encoding="utf-8")
    assert source.count(PLACE) == 1
    table.write_text(source.replace(PLACE, PLACE + block_after("row: src/config/tasks.py")), encoding="utf-8")
    script = tmp_path / "use.py"
    script.write_text(block_after("uses the row") + CHECK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    both, bass = done.stdout.splitlines()
    assert both.startswith("['transcribe_both', 'tie', ")
    assert bass.startswith("['transcribe_bass', 'tie', ")


def test_a_class_of_instruments_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables the page names take a new vocabulary, and tasks, tokens and scores follow it."""
    text = PAGE.read_text(encoding="utf-8")
    for table in ("_PROGRAM_VOCABULARIES", "_DRUM_VOCABULARIES"):
        assert f"`{table}`" in text
    monkeypatch.setitem(vocabularies._PROGRAM_VOCABULARIES, "duo", {"Keys": (4, 0), "Low": (33, 32)})
    monkeypatch.setitem(vocabularies._DRUM_VOCABULARIES, "pair", {"Kick": (36, 35), "Rest": (38, 40, 42)})
    task = Task("duo_task", "duo", drum_vocab="pair", eval_vocab="duo")
    tokenizer = NoteTokenizer(task, segment_samples=32767)
    song = [Note(0.1, 0.5, 60, 0), Note(0.2, 0.5, 40, 32), Note(0.3, 0.31, 42, 128, True)]
    notes = tokenizer.decode(tokenizer.encode(song, num_windows=1)).notes
    assert [(n.pitch, n.program) for n in notes] == [(60, 4), (40, 33), (38, 128)]
    scores = score_notes(song, notes, task)
    assert [scores[key] for key in ("onset_f_Keys", "onset_f_Low", "onset_f_drum")] == [1.0, 1.0, 1.0]


def test_the_page_names_every_field_of_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = text[text.index("| field | effect |") :]
    named = set(
        re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in rows.splitlines() if "|" in line))
    )
    assert named == set(Task.__dataclass_fields__) - {"name"}
