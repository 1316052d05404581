"""The worked example of docs/evaluation.md is recomputed from the page."""

from pathlib import Path

import pytest

from amt.evaluation import score_keys, score_notes
from amt.notes.note import Note

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
