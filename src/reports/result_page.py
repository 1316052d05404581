"""The one-page report of a test: scores, where the notes went, the best and worst songs to see and hear."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.names import counted
from ..evaluation import NoteErrors, Tolerances
from ..evaluation.errors import KINDS, OTHER_CLASS
from ..evaluation.matching import FloatArray
from ..evaluation.pairing import pair_notes, pitches
from ..evaluation.summary import PREFIX
from ..notes.note import NoteArray, notes_to_array
from .charts import Series, bar_chart, line_chart
from .page import (
    Example,
    excerpt,
    facts_table,
    interval_text,
    score_card,
    score_text,
    song_section,
    spread_text,
    write_page,
)
from .result import SetResult, SongResult, TestResult
from .run import EVERY_CLASS, ShownSong, TestRun
from .table import KIND_NAMES, NAMES, class_rows, errors_line, set_line, share_text, shift_lines

EXCERPT_SECONDS = 30.0
_TEMPLATE = Path(__file__).with_name("result_page.html")
_STEP_SECONDS = 5.0


def write_result_page(path: Path, run: TestRun) -> None:
    """Write the report as one self-contained HTML file: no network, no scripts.

    Args:
        path: of the HTML file; written whole or not at all.
        run: the test.
    """
    result = run.result
    tolerance = float(result.conventions["onset_tolerance"])
    parts = {
        "summary": html.escape(_summary(result)),
        "cards": "".join(_card(result, item) for item in result.sets),
        "scores": _score_table(result),
        "tolerance": f"{1000 * tolerance:g}",
        "excerpt": f"{EXCERPT_SECONDS:g}",
        "sets": "\n".join(_set_section(result, item, tolerance) for item in result.sets),
        "examples": "\n".join(_examples(result, run)),
        "songs": "\n".join(_song_table(result, item) for item in result.sets),
        "facts": facts_table(_facts(result)),
    }
    write_page(path, f"Test of {result.name}", _TEMPLATE, parts)


def worst_part(item: Example, seconds: float = EXCERPT_SECONDS) -> float:
    """Start of the ``seconds`` of a song with the most notes that only one side has, told by onset and pitch;
    of equal ones the earliest. Without such notes those with the most notes."""
    duration = len(item.audio) / item.sample_rate
    last = max(0.0, duration - seconds)
    starts = np.append(np.arange(0.0, last, _STEP_SECONDS), last)
    sides = [notes_to_array(notes) for notes in (item.reference, item.estimate)]
    alone = [_alone(one, other) for one, other in (sides, sides[::-1])]
    onsets = np.concatenate(alone if any(map(len, alone)) else [side["onset"] for side in sides])
    counts = [int(((onsets >= start) & (onsets < start + seconds)).sum()) for start in starts]
    return float(starts[int(np.argmax(counts))])


def _alone(notes: NoteArray, others: NoteArray) -> FloatArray:
    """Onsets of the notes that have no note of their pitch within the tolerance."""
    matched = pair_notes(notes, others, pitches(notes), pitches(others), Tolerances(), with_offset=False)
    onsets: FloatArray = notes["onset"][matched < 0]
    return onsets


def _summary(result: TestResult) -> str:
    seconds = sum(song.seconds for song in result.songs)
    return (
        f"{counted(len(result.songs), 'song')} of {counted(len(result.sets), 'set')}, "
        f"{counted(sum(song.num_notes for song in result.songs), 'note')}, {seconds / 60:.1f} minutes. "
        f"Task {result.conventions['task']}, split {result.conventions['split']}."
    )


def _card(result: TestResult, item: SetResult) -> str:
    metric = result.metrics.get(f"{PREFIX}({item.name})onset_f")
    name = "onset F1"
    if metric is None:  # a set of drums only
        metric, name = result.metrics.get(f"{PREFIX}({item.name})onset_f_drum"), "drum onset F1"
    spread = ""
    if metric is not None and (text := interval_text(metric.low, metric.high, metric.num_songs, 100)):
        spread = f"{text} %, "
    songs = counted(len(result.songs_of(item.name)), "song")
    return score_card(math.nan if metric is None else metric.value, f"{name}, {item.name}", spread + songs)


def _score_table(result: TestResult) -> str:
    scopes = [(item.name, f"({item.name})", f"({item.name})micro_") for item in result.sets]
    if len(result.sets) > 1:
        scopes.append(("all sets", "macro_", "micro_"))
    shown = [key for key in NAMES if any(f"{PREFIX}{mean}{key}" in result.metrics for _, mean, _ in scopes)]
    head = "".join(f"<th>{html.escape(NAMES[key])}</th>" for key in shown)
    rows = []
    for name, mean, pooled in scopes:
        cells = "".join(_score_cell(result, f"{mean}{key}", f"{pooled}{key}") for key in shown)
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    return (
        f'<table class="figures"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _score_cell(result: TestResult, mean: str, pooled: str) -> str:
    metric = result.metrics.get(f"{PREFIX}{mean}")
    if metric is None:
        return "<td>–</td>"
    micro = result.metrics.get(f"{PREFIX}{pooled}")
    more = "" if micro is None else f' <span class="quiet">({score_text(micro.value)})</span>'
    spread = spread_text(metric.low, metric.high, metric.num_songs)
    return f"<td>{score_text(metric.value)}{more}{spread}</td>"


def _set_section(result: TestResult, item: SetResult, tolerance: float) -> str:
    errors = result.errors_of(item.name)
    if errors is None:
        return f"<h2>{html.escape(item.name)}</h2><p>Not one song could be scored.</p>"
    parts = [
        f"<h2>{html.escape(item.name)}</h2>",
        f'<p class="quiet">{html.escape(set_line(result, item))}</p>',
        f"<p>{html.escape(item.remark)}</p>" if item.remark else "",
        f'<div class="two"><div class="panel"><h3>Where the notes went</h3>{_stack(errors)}',
        f'<p class="quiet">{html.escape(errors_line(errors))}</p></div>',
        f'<div class="panel"><h3>How early or late</h3>{_timing(errors, tolerance)}</div></div>',
        '<div class="panel wide"><h3>By class</h3>',
        f"{_class_table(result, item, errors)}</div>",
    ]
    confusion = _confusion(errors)
    if confusion:
        parts.append(
            '<div class="panel wide"><h3>Which instrument was taken for which</h3>'
            f'{confusion}<p class="quiet">Rows: the instrument class of the '
            "reference note; columns: that of the estimated note with its onset and pitch. Notes "
            "without such a partner are in the last column and the last row.</p></div>"
        )
    if item.octave_shift or item.label_shift:
        parts.append(_shifts(item))
    if item.failures:
        reasons = facts_table({failure.song_id: failure.reason for failure in item.failures})
        parts.append(f'<div class="panel wide"><h3>Not scored</h3>{reasons}</div>')
    return "\n".join(parts)


def _stack(errors: NoteErrors) -> str:
    """One bar of all notes of either side, a pair counted once."""
    total = sum(errors.counts.values()) or 1
    shown = [kind for kind in KINDS if errors.counts[kind]]
    bar = "".join(
        f'<span class="kind-{kind}" style="width:{100 * errors.counts[kind] / total:.2f}%" '
        f'title="{KIND_NAMES[kind]}: {errors.counts[kind]}"></span>'
        for kind in shown
    )
    legend = "".join(
        f'<span><i class="kind-{kind}"></i>{KIND_NAMES[kind]} {share_text(count / total)}</span>'
        for kind, count in errors.counts.items()
        if count
    )
    return f'<div class="stack">{bar}</div><div class="legend">{legend}</div>'


def _timing(errors: NoteErrors, tolerance: float) -> str:
    centres, counts = errors.histogram()
    chart = bar_chart(
        [1000 * centre for centre in centres],
        counts,
        "estimated minus true onset in ms",
        lambda centre: abs(centre) > 1000 * tolerance + 1e-6,
    )
    if not len(errors.deviations):
        return chart
    deviations = 1000 * errors.deviations
    words = (
        f"mean {deviations.mean():+.1f} ms, median {np.median(deviations):+.1f} ms, "
        f"mean distance {np.abs(deviations).mean():.1f} ms; red: out of tolerance"
    )
    return f'{chart}<p class="quiet">{words}</p>'


def _class_table(result: TestResult, item: SetResult, errors: NoteErrors) -> str:
    head = "".join(
        f'<th title="{tip}">{name}</th>'
        for name, tip in (
            ("notes", "in the reference"),
            ("found", "in the estimate"),
            ("onset F1", "pooled over songs"),
            ("offset F1", "pooled over songs"),
            ("leaks out", "share of its notes written as another class"),
            ("leaks in", "share of the notes written as this class that are of another"),
        )
    )
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{notes:,}</td><td>{found:,}</td><td>{score_text(onset)}</td>"
        f"<td>{score_text(offset)}</td><td>{share_text(out)}</td><td>{share_text(into)}</td></tr>"
        for name, notes, found, onset, offset, out, into in class_rows(result.metrics, item, errors)
    )
    return f'<table class="figures"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _confusion(errors: NoteErrors) -> str:
    """Table of the classes with notes; empty when there are fewer than two."""
    table = errors.confusion
    used = [n for n in range(len(errors.classes)) if table[n].any() or table[:, n].any()]
    if len(used) < 2:
        return ""
    names = {n: errors.classes[n] if errors.classes[n] != OTHER_CLASS else "no class" for n in used}
    columns, rows = [*used, -1], [*used, -1]
    head = "".join(f"<th>{html.escape(names.get(n, 'not found'))}</th>" for n in columns)
    body = []
    for row in rows:
        total = int(table[row].sum()) or 1
        cells = []
        for column in columns:
            count = int(table[row, column])
            if row == column == -1:
                cells.append("<td></td>")
                continue
            colour = "--line-2" if row == column else "--line-0"
            strength = 0.0 if not count else 8 + 62 * count / total
            cells.append(
                f'<td style="background:color-mix(in srgb, var({colour}) {strength:.0f}%, transparent)" '
                f'title="{100 * count / total:.1f} % of the row">{count or ""}</td>'
            )
        body.append(f"<tr><th>{html.escape(names.get(row, 'not there'))}</th>{''.join(cells)}</tr>")
    return (
        f'<table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )


def _shifts(item: SetResult) -> str:
    parts = ['<div class="two">']
    if item.octave_shift:
        classes = dict.fromkeys(row.classes for row in item.octave_shift)
        series = [
            Series(
                "all classes" if name == EVERY_CLASS else name,
                tuple((row.semitones, row.onset_f) for row in item.octave_shift if row.classes == name),
                marks=True,
            )
            for name in list(classes)[:3]
        ]
        chart = line_chart(series, "semitones added to the labels", (0.0, 1.0))
        parts.append(f'<div class="panel"><h3>Labels moved by octaves</h3>{chart}</div>')
    if item.label_shift:
        points = tuple((1000 * row.seconds, row.onset_f) for row in item.label_shift)
        chart = line_chart(
            [Series("onset F1, drums included", points, marks=True)], "ms added to the labels", (0.0, 1.0)
        )
        parts.append(f'<div class="panel"><h3>Labels moved in time</h3>{chart}</div>')
    lines = "".join(f'<p class="quiet">{html.escape(line)}</p>' for line in shift_lines(item))
    return "".join(parts) + f"</div>{lines}"


def _examples(result: TestResult, run: TestRun) -> list[str]:
    sections = []
    for item in result.sets:
        extremes = run.shown[item.name]
        ranked = [(song, f"best {n}") for n, song in enumerate(extremes.best, 1)]
        ranked += [(song, f"worst {n}") for n, song in enumerate(extremes.worst, 1)]
        sections += [_example(song, f"{rank} of {item.name}") for song, rank in ranked]
    return sections or ['<p class="quiet">None.</p>']


def _example(song: ShownSong, rank: str) -> str:
    item = song.example()
    title, remark = f"{item.title} ({rank})", "scores are those of the whole song"
    duration = len(item.audio) / item.sample_rate
    if duration > EXCERPT_SECONDS:
        start = worst_part(item)
        item = excerpt(item, start, EXCERPT_SECONDS)
        remark += f"; shown are {start:.0f} to {start + EXCERPT_SECONDS:.0f} s of {duration:.0f}"
    return song_section(replace(item, title=title, remark=remark))


def _song_table(result: TestResult, item: SetResult) -> str:
    keys = [
        key
        for key in NAMES
        if any(math.isfinite(song.scores.scores.get(key, math.nan)) for song in result.songs_of(item.name))
    ]
    head = "".join(f"<th>{html.escape(NAMES[key])}</th>" for key in keys)
    rows = "".join(_song_row(song, keys) for song in result.songs_of(item.name))
    return (
        f'<details class="panel wide"><summary>{html.escape(item.name)}</summary>'
        f'<table class="figures"><thead><tr><th></th>{head}<th>notes</th><th>found</th><th>seconds</th>'
        f"<th>sha256 of the audio</th></tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _song_row(song: SongResult, keys: Sequence[str]) -> str:
    cells = "".join(f"<td>{score_text(song.scores.scores.get(key, math.nan))}</td>" for key in keys)
    return (
        f"<tr><th>{html.escape(song.song_id)}</th>{cells}<td>{song.num_notes:,}</td>"
        f"<td>{song.num_estimated:,}</td><td>{song.seconds:.1f}</td>"
        f'<td title="{song.audio_sha256}">{song.audio_sha256[:12]}</td></tr>'
    )


def _facts(result: TestResult) -> dict[str, object]:
    facts: dict[str, object] = {"name": result.name}
    facts |= flat_facts(result.system)
    facts |= flat_facts(result.conventions)
    for item in result.sets:
        facts[f"{item.name}: labels"] = f"sha256 {item.labels_sha256[:16]}"
        facts[f"{item.name}: data set as prepared"] = f"sha256 {item.recorded_sha256[:16]}"
    return facts


def flat_facts(plain: Mapping[str, Any], before: str = "") -> dict[str, object]:
    """Names of nested plain values put together; values that say nothing left out."""
    flat: dict[str, object] = {}
    for key, value in plain.items():
        name = f"{before}{key.replace('_', ' ')}"
        if isinstance(value, Mapping):
            flat |= flat_facts(value, f"{name}: ")
        elif isinstance(value, (list, tuple)):
            flat[name] = ", ".join(str(item) for item in value)
        else:
            flat[name] = value
    return {name: value for name, value in flat.items() if value is not None and value != ""}
