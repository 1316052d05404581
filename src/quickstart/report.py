"""The one-page report of a quick-start run: scores, curves, pictures and sound in one HTML file."""

from __future__ import annotations

import csv
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..config.names import counted
from ..reports.charts import Series, line_chart, smooth
from ..reports.page import Example, facts_table, score_card, score_text, song_section, spread_text, write_page
from .scoring import SplitScore

MetricsRow = Mapping[str, float]
_TEMPLATE = Path(__file__).with_name("report.html")
_HEADINGS = {"test_standard": "Standard mixes", "test_hard": "Hard mixes"}


@dataclass(frozen=True)
class QuickstartResult:
    """Everything the report shows."""

    scores: Mapping[str, Mapping[str, SplitScore]]
    """System (``trained``, ``untrained``, ``random``, in this order) to split to score."""
    metrics: Sequence[MetricsRow]
    """Rows of ``metrics.csv``, see :func:`read_metrics`."""
    examples: Sequence[Example] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further lines of the table of facts: parameters, steps, minutes, device, data hash."""
    title: str = "Quick start"


def read_metrics(path: str | Path) -> list[dict[str, float]]:
    """The rows of a CSV log; empty cells and text are left out."""
    rows: list[dict[str, float]] = []
    with Path(path).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values: dict[str, float] = {}
            for key, text in row.items():
                try:
                    values[key] = float(text)
                except (TypeError, ValueError):
                    continue
            rows.append(values)
    return rows


def write_report(path: str | Path, data: QuickstartResult) -> None:
    """Write the report as one self-contained HTML file: no network, no scripts.

    Args:
        path: of the HTML file; written whole or not at all.
        data: what it shows.
    """
    parts = {
        "headline": _headline(data.scores),
        "scores": _score_table(data.scores),
        "loss_chart": _loss_chart(data.metrics),
        "score_chart": _score_chart(data.metrics),
        "examples": "\n".join(song_section(item) for item in data.examples),
        "songs": _song_tables(data.scores),
        "facts": facts_table(data.facts),
    }
    write_page(path, data.title, _TEMPLATE, parts)


def _headline(scores: Mapping[str, Mapping[str, SplitScore]]) -> str:
    """The big numbers: the first system's F1 per split."""
    return "".join(
        score_card(
            score.onset_f,
            f"voice onset F1, {_heading(split).lower()}",
            f"{counted(score.num_songs, 'song')}, {counted(score.num_notes, 'note')}, synthetic",
        )
        for split, score in next(iter(scores.values()), {}).items()
    )


def _score_table(scores: Mapping[str, Mapping[str, SplitScore]]) -> str:
    splits = list(dict.fromkeys(split for row in scores.values() for split in row))
    first = "".join(f'<th colspan="4" class="group">{html.escape(_heading(s))}</th>' for s in splits)
    second = '<th>onset F1</th><th>P</th><th>R</th><th title="onset and offset">offset F1</th>' * len(splits)
    rows = []
    for system, row in scores.items():
        cells = "".join(_score_cells(row.get(split)) for split in splits)
        rows.append(f"<tr><th>{html.escape(system)}</th>{cells}</tr>")
    return (
        f'<table class="scores"><thead><tr><th></th>{first}</tr><tr><th></th>{second}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _score_cells(score: SplitScore | None) -> str:
    if score is None:
        return "<td>–</td>" * 4
    spread = spread_text(*score.interval, score.num_songs)
    return (
        f'<td class="main">{score_text(score.onset_f)}{spread}</td><td>{score_text(score.precision)}</td>'
        f"<td>{score_text(score.recall)}</td><td>{score_text(score.offset_f)}</td>"
    )


def _song_tables(scores: Mapping[str, Mapping[str, SplitScore]]) -> str:
    """Every song of the first system."""
    tables = []
    for split, score in next(iter(scores.values()), {}).items():
        rows = "".join(
            f"<tr><th>{html.escape(song.song_id)}</th><td>{score_text(song.onset_f)}</td>"
            f"<td>{score_text(song.offset_f)}</td><td>{song.num_notes}</td><td>{song.num_estimate}</td></tr>"
            for song in score.songs
        )
        tables.append(
            f"<div><h3>{html.escape(_heading(split))}</h3><table><thead><tr><th></th><th>onset F1</th>"
            f"<th>offset F1</th><th>notes</th><th>found</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    return "".join(tables)


def _loss_chart(rows: Sequence[MetricsRow]) -> str:
    training = _column(rows, "train_loss_step") or _column(rows, "train_loss")
    series = [
        Series("training, all terms", smooth(training)),
        Series("training, tokens", smooth(_column(rows, "token_ce"))),
        Series("validation, tokens", _column(rows, "val_loss"), marks=True),
    ]
    losses = [y for line in series for _, y in line.points]
    top = float(np.quantile(losses, 0.98)) if losses else 1.0
    return line_chart(series, "step", (0.0, top))


def _score_chart(rows: Sequence[MetricsRow]) -> str:
    series = [
        Series("onset F1", _column(rows, "validation/macro_onset_f"), marks=True),
        Series("onset and offset F1", _column(rows, "validation/macro_offset_f"), marks=True),
    ]
    return line_chart(series, "step", (0.0, 1.0))


def _column(rows: Sequence[MetricsRow], key: str) -> tuple[tuple[float, float], ...]:
    found = [(row["step"], row[key]) for row in rows if key in row and "step" in row]
    return tuple(point for point in found if math.isfinite(point[1]))


def _heading(split: str) -> str:
    return _HEADINGS.get(split, split)
