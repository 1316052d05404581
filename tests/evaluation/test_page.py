"""The worked example of docs/evaluation.md is recomputed from the page."""

import re
from pathlib import Path
from typing import Any

import pytest

from amt.config.vocabularies import get_drum_vocab
from amt.evaluation import Scoring, note_errors, score_keys, score_notes
from amt.notes import Note, write_midi

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
VOCAB = {"Piano": (0,), "Voice": (100, 101)}


def tables(section: str) -> list[list[list[str]]]:
    """Rows of cells of every table of a section, without heads."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        inside = line.startswith("|")
    return [table[2:] for table in found]


def notes(rows: list[list[str]]) -> list[Note]:
    return [
        Note(float(onset), float(offset), int(pitch), 128, True)
        if program == "drum"
        else Note(float(onset), float(offset), int(pitch), int(program))
        for onset, offset, pitch, program in rows
    ]


def test_the_worked_example() -> None:
    reference, estimate, expected = tables("Worked example")
    assert str(VOCAB).replace("'", '"') in PAGE
    scores = score_notes(notes(reference), notes(estimate), VOCAB, "gm", pitch_class=("Voice",))
    assert len(expected) == 15
    for key, value, _ in expected:
        assert scores[key.strip("`")] == pytest.approx(float(value), abs=5e-5), key


def test_where_the_notes_of_the_worked_example_went() -> None:
    reference, estimate, _ = tables("Worked example")
    errors = note_errors(notes(reference), notes(estimate), Scoring(VOCAB, get_drum_vocab("gm")))
    assert {kind: count for kind, count in errors.counts.items() if count} == {"right": 2, "octave": 1}
    assert errors.drums == {"right": 1, "missed": 0, "extra": 0}
    assert 1000 * errors.deviations.mean() == pytest.approx(-30)
    said = "come out as: right 2, octave off 1, and one drum hit right; the onsets are 30 ms early on average"
    assert said in PAGE


def test_the_first_example_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reference = [Note(0, 1, 60, 100), Note(1, 2, 64, 100), Note(0, 1, 48, 33), Note(0, 0.01, 36, 128, True)]
    write_midi(reference, "reference.mid")
    write_midi([reference[0], Note(1, 1.5, 64, 100), *reference[2:]], "estimate.mid")
    code = PAGE.split("```python\n")[1].split("```")[0]
    scope: dict[str, Any] = {}
    exec(code, scope)
    shown = eval(code.splitlines()[-1], scope)
    assert shown == pytest.approx((1.0, 0.5, 0.75))


def test_how_near_is_near() -> None:
    """The rules of "When two notes agree", at their edges."""
    assert "exactly 50 ms counts, 50.1 ms does not" in PAGE
    assert "at most max(50 ms, 20 % of the reference note) apart" in PAGE
    for apart, onset_f in ((0.05, 1.0), (0.0501, 0.0)):
        assert score_notes([Note(1, 2, 60)], [Note(1 + apart, 2, 60)])["onset_f"] == onset_f
    for length, apart, offset_f in ((1.0, 0.2, 1.0), (1.0, 0.201, 0.0), (0.1, 0.05, 1.0), (0.1, 0.0501, 0.0)):
        reference, estimate = Note(1, 1 + length, 60), Note(1, 1 + length + apart, 60)
        assert score_notes([reference], [estimate])["offset_f"] == offset_f
    assert re.search(r"rounded to four decimals", PAGE)
    assert score_notes([Note(1, 2, 60)], [Note(1.05004, 2, 60)])["onset_f"] == 1.0


def test_every_kind_of_key_is_explained() -> None:
    explained = {key.strip("` ") for row in tables("Keys")[0] for key in row[0].split(",")}
    for key in score_keys({"Voice": (100,)}, pitch_class=("Voice",)):
        pattern = key.removesuffix("_strict").replace("Voice", "{class}")
        if pattern.endswith("_pc") and pattern != "frame_f_pc":
            pattern = "..._{class}_pc"
        assert pattern in explained, key
    assert "..._strict" in explained


def test_the_table_of_empty_files() -> None:
    (table,) = tables("Nothing there, nothing found")
    note = [Note(0.0, 1.0, 60)]
    sides = {"empty": [], "notes": note}
    for reference, estimate, f, strict, *_ in table:
        scores = score_notes(sides[reference], sides[estimate])
        for key, cell in (("onset_f", f), ("onset_f_strict", strict)):
            text = cell.strip("*")
            want = float("nan") if text == "not counted" else float(text)
            assert scores[key] == pytest.approx(want, nan_ok=True)
