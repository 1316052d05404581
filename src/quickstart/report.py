"""The one-page report of a quick-start run: scores, curves, pictures and sound in one HTML file."""

from __future__ import annotations

import base64
import csv
import html
import io
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..inference.files import atomic_path
from ..inference.piano_roll import draw_piano_roll
from ..inference.render import render_notes
from ..notes.note import Note
from .charts import Series, line_chart, smooth
from .scoring import SplitScore

Samples = npt.NDArray[np.float32]
MetricsRow = Mapping[str, float]
_TEMPLATE = Path(__file__).with_name("report.html")
_HEADINGS = {"test_standard": "Standard mixes", "test_hard": "Hard mixes"}


@dataclass(frozen=True)
class Example:
    """One held-out song of the report, to look at and to hear."""

    title: str
    audio: Samples
    """The input, (samples,) float32."""
    sample_rate: int
    estimate: Sequence[Note]
    reference: Sequence[Note]
    onset_f: float
    offset_f: float = float("nan")


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
    page = _TEMPLATE.read_text(encoding="utf-8")
    parts = {
        "title": html.escape(data.title),
        "headline": _headline(data.scores),
        "scores": _score_table(data.scores),
        "loss_chart": _loss_chart(data.metrics),
        "score_chart": _score_chart(data.metrics),
        "examples": "\n".join(_example(item) for item in data.examples),
        "songs": _song_tables(data.scores),
        "facts": "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in data.facts.items()
        ),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)
    with atomic_path(Path(path)) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _headline(scores: Mapping[str, Mapping[str, SplitScore]]) -> str:
    """The big numbers: the first system's F1 per split."""
    cards = []
    for split, score in next(iter(scores.values()), {}).items():
        cards.append(
            f'<div class="card"><div class="big">{_percent(score.onset_f)}</div>'
            f'<div class="what">voice onset F1, {html.escape(_heading(split).lower())}</div>'
            f'<div class="quiet">{score.num_songs} songs, {score.num_notes} notes, synthetic</div></div>'
        )
    return "".join(cards)


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
    low, high = score.interval
    spread = "" if math.isnan(low) else f'<span class="spread">{low:.3f} to {high:.3f}</span>'
    return (
        f'<td class="main">{_score(score.onset_f)}{spread}</td><td>{_score(score.precision)}</td>'
        f"<td>{_score(score.recall)}</td><td>{_score(score.offset_f)}</td>"
    )


def _song_tables(scores: Mapping[str, Mapping[str, SplitScore]]) -> str:
    """Every song of the first system."""
    tables = []
    for split, score in next(iter(scores.values()), {}).items():
        rows = "".join(
            f"<tr><th>{html.escape(song.song_id)}</th><td>{_score(song.onset_f)}</td>"
            f"<td>{_score(song.offset_f)}</td><td>{song.num_notes}</td><td>{song.num_estimate}</td></tr>"
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


def _example(item: Example) -> str:
    duration = len(item.audio) / item.sample_rate
    heard = render_notes(item.estimate, item.sample_rate, duration)
    true = render_notes(item.reference, item.sample_rate, duration)
    players = "".join(
        f"<figure><figcaption>{label}</figcaption>"
        f'<audio controls preload="none" src="{_audio_url(sound, item.sample_rate)}"></audio></figure>'
        for label, sound in (
            ("Input", item.audio),
            ("Transcription, rendered", heard),
            ("Reference, rendered", true),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "roll.png"
        draw_piano_roll(picture, item.estimate, item.reference, duration)
        image = base64.b64encode(picture.read_bytes()).decode("ascii")
    title = html.escape(item.title)
    offset = "" if math.isnan(item.offset_f) else f", with offsets {_score(item.offset_f)}"
    return (
        f'<section class="song"><h3>{title}</h3><p class="quiet">onset F1 {_score(item.onset_f)}{offset}; '
        f"{len(item.estimate)} notes found, {len(item.reference)} in the reference</p>"
        f'<img alt="Piano roll of {title}" src="data:image/png;base64,{image}">'
        f'<div class="players">{players}</div></section>'
    )


def _audio_url(audio: Samples, sample_rate: int) -> str:
    import soundfile

    memory = io.BytesIO()
    soundfile.write(memory, np.clip(audio, -1.0, 1.0), sample_rate, format="FLAC", subtype="PCM_16")
    return f"data:audio/flac;base64,{base64.b64encode(memory.getvalue()).decode('ascii')}"


def _heading(split: str) -> str:
    return _HEADINGS.get(split, split)


def _score(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}<small>%</small>"
