"""A test, or a comparison of two, as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..config.names import counted
from ..evaluation import Metric, NoteErrors, PairedDifference
from ..evaluation.bootstrap import INTERVAL_SONGS
from ..evaluation.errors import KINDS
from ..evaluation.summary import PREFIX
from ..inference.choices import left_out_text
from .page import interval_text, score_text
from .result import Comparison, SetResult, ShiftRow, TestResult, without_reference

NO_INTERVAL = "too few songs"
"""In place of an interval of fewer than ``INTERVAL_SONGS`` songs."""
VERDICT_SONGS = 5
"""Fewest songs that can say which of two systems is better."""
ALL_SETS = "all sets"
_WIDTH = 110
"""Columns where the output is no terminal."""
NAMES = {
    "onset_f": "onset F1",
    "offset_f": "onset and offset F1",
    "onset_f_drum": "drum onset F1",
    "frame_f": "frame F1",
    "frame_f_pc": "frame F1 without octaves",
    "multi_f": "multi-instrument F1",
}
"""Names of the keys of whole files."""
KIND_NAMES = {kind: kind.replace("_", " ") for kind in KINDS} | {
    "octave": "octave off",
    "timing": "early or late",
    "pitch": "other pitch",
}


def make_console() -> Console:
    """Standard output, wide enough for the tables where it is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def print_result(result: TestResult, console: Console) -> None:
    """All figures of a test."""
    for item in result.sets:
        if not result.songs_of(item.name):
            continue
        console.print()
        console.print(f"[bold]{escape(set_line(result, item))}[/bold]", soft_wrap=True)
        if result.lacks_reference(item.name):
            console.print(f"[red]{escape(item.remark)}[/red]", soft_wrap=True)
            continue
        console.print(_score_table(result.metrics, f"({item.name})", f"({item.name})micro_", item.name))
        errors = result.errors_of(item.name)
        assert errors is not None
        classes = _class_table(result.metrics, item, errors)
        if classes.row_count:
            console.print(classes)
        for line in (errors_line(errors), *shift_lines(item)):
            console.print(escape(line), soft_wrap=True)
        if item.remark:
            console.print(f"[red]{escape(item.remark)}[/red]", soft_wrap=True)
    for item in result.sets:
        for failure in item.failures:
            line = f"{item.name}, {failure.song_id}: not scored: {failure.reason}"
            console.print(f"[red]{escape(line)}[/red]", soft_wrap=True)
    if len(result.sets) > 1 and not without_reference(result.songs):
        console.print()
        console.print(f"[bold]{ALL_SETS}: {counted(len(result.songs), 'song')}[/bold]")
        console.print(_score_table(result.metrics, "macro_", "micro_", ALL_SETS))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The headline differences of two systems, and which of them is better."""
    scopes = comparison_scopes(comparison.differences)
    of = f" ({', '.join(scopes)})" if len(scopes) == 1 else ""
    console.print()
    console.print(
        f"[bold]A: {escape(comparison.a)}, B: {escape(comparison.b)}; "
        f"{counted(comparison.num_songs, 'song')} in common{escape(of)}[/bold]",
        soft_wrap=True,
    )
    for remark in comparison.remarks:
        console.print(f"[yellow]{escape(remark)}[/yellow]", soft_wrap=True)
    for scope, rows in scopes.items():
        if len(scopes) > 1:
            console.print(f"[bold]{escape(scope)}[/bold]", soft_wrap=True)
        console.print(_difference_table(rows))
    if not scopes:
        console.print("nothing to compare: the songs in common have no reference notes")
        return
    name, found = next(iter([*scopes.values()][-1].items()))
    console.print(verdict(name, found), soft_wrap=True)


def comparison_scopes(
    differences: Mapping[str, PairedDifference],
) -> dict[str, dict[str, PairedDifference]]:
    """The headline differences by name, the main one first: of each set and, where there are several, of all
    sets as the last."""
    sets: dict[str, dict[str, PairedDifference]] = {}
    every: dict[str, PairedDifference] = {}
    for figure, name in NAMES.items():
        for key, found in differences.items():
            if not key.endswith(figure):
                continue
            scope = key.removeprefix(PREFIX).removesuffix(figure)
            if scope == "macro_":
                every[name] = found
            elif scope.startswith("(") and scope.endswith(")"):
                sets.setdefault(scope[1:-1], {})[name] = found
    return sets if len(sets) <= 1 else {**sets, ALL_SETS: every}


def _difference_table(rows: Mapping[str, PairedDifference]) -> Table:
    table = _table("score", "B - A", "95 % interval", "B better in", "songs")
    for name, found in rows.items():
        low, high = found.interval
        known = found.num_songs >= INTERVAL_SONGS
        sure = found.num_songs >= VERDICT_SONGS and (low > 0 or high < 0)
        table.add_row(
            name,
            f"{'[bold]' if sure else ''}{found.difference:+.4f}{'[/bold]' if sure else ''}",
            f"{low:+.4f} to {high:+.4f}" if known else NO_INTERVAL,
            f"{100 * found.share_better:.1f} % of resamples" if known else "–",
            str(found.num_songs),
        )
    return table


def verdict(name: str, found: PairedDifference) -> str:
    """Which of two systems is better by one measure, as far as the songs can say it."""
    low, high = found.interval
    songs = counted(found.num_songs, "song")
    if found.num_songs < VERDICT_SONGS:
        verb = "is" if found.num_songs == 1 else "are"
        return f"{songs} {verb} too few to tell which is better in {name}: {found.difference:+z.3f}"
    if low > 0 or high < 0:
        better = f"{'B' if low > 0 else 'A'} is better in {name}"
        return f"{better}: {found.difference:+z.3f} (95 % interval {low:+z.3f} to {high:+z.3f}, {songs})"
    return f"no sure difference in {name}: {found.difference:+z.3f} ({low:+z.3f} to {high:+z.3f}, {songs})"


def set_line(result: TestResult, item: SetResult) -> str:
    """What a set is, in one line."""
    songs = result.songs_of(item.name)
    parts = [
        counted(len(songs), "song"),
        counted(sum(song.num_notes for song in songs), "note"),
        f"{sum(song.num_estimated for song in songs):,} found",
        f"{sum(song.seconds for song in songs):,.0f} s",
    ]
    windows = sum(song.num_windows for song in songs)
    if windows:
        parts.append(counted(windows, "window"))
    malformed = sum(song.num_malformed for song in songs)
    if malformed:
        parts.append(left_out_text(malformed))
    if item.failures:
        parts.append(f"{counted(len(item.failures), 'song')} not scored")
    return f"{item.name} (split {item.split} of {item.store}): {', '.join(parts)}"


def class_rows(
    metrics: Mapping[str, Metric], item: SetResult, errors: NoteErrors
) -> list[tuple[str, int, int, float, float, float, float]]:
    """For each class with notes: name, reference notes, estimated notes, pooled onset and offset F1 (NaN for
    drums' offsets), leakage out and in."""
    rows = []
    leakage = errors.leakage()
    for number, name in enumerate(errors.classes):
        if name not in leakage:
            continue
        values = []
        for kind in ("onset_f", "offset_f"):
            key = f"{kind}_{name}" if name in item.classes else f"{kind}_drum"
            known = name in item.classes or number == len(errors.classes) - 1
            metric = metrics.get(f"{PREFIX}({item.name})micro_{key}") if known else None
            values.append(math.nan if metric is None else metric.value)
        row = int(errors.confusion[number].sum()), int(errors.confusion[:, number].sum())
        rows.append((name, *row, values[0], values[1], *leakage[name]))
    return rows


def errors_line(errors: NoteErrors) -> str:
    """Where the notes went, in one line."""
    parts = [f"{KIND_NAMES[kind]} {errors.counts[kind]:,}" for kind in KINDS]
    line = f"notes: {', '.join(parts)}; wrong end {errors.wrong_end:,}"
    if len(errors.deviations):
        line += f"; onsets {1000 * errors.deviations.mean():+.1f} ms on average"
    return line


def shift_lines(item: SetResult) -> list[str]:
    """What the scans of a set found, a line each."""
    lines = []
    for row in item.octave_shift:
        if row.is_best:
            now = _unmoved(item.octave_shift, row.classes)
            lines.append(
                f"octave shift of {row.classes}: best {row.semitones:+d} semitones "
                f"(onset F1 {row.onset_f:.3f}; as labelled {now:.3f})"
            )
    for row in item.label_shift:
        if row.is_best:
            now = _unmoved(item.label_shift, row.classes)
            lines.append(
                f"label shift: best {1000 * row.seconds:+.0f} ms (onset F1 with drums {row.onset_f:.3f}; "
                f"as labelled {now:.3f})"
            )
    return lines


def _unmoved(rows: Sequence[ShiftRow], classes: str) -> float:
    return next(row.onset_f for row in rows if (row.classes, row.semitones, row.seconds) == (classes, 0, 0.0))


def _score_table(metrics: Mapping[str, Metric], mean_name: str, pooled_name: str, title: str) -> Table:
    table = _table("score", "mean over songs", "95 % interval", "pooled", "songs")
    for key, name in NAMES.items():
        metric = metrics.get(f"{PREFIX}{mean_name}{key}")
        if metric is None:
            continue
        pooled = metrics.get(f"{PREFIX}{pooled_name}{key}")
        table.add_row(
            name,
            score_text(metric.value),
            interval_text(metric.low, metric.high, metric.num_songs) or NO_INTERVAL,
            score_text(math.nan if pooled is None else pooled.value),
            str(metric.num_songs),
        )
    if not table.row_count:
        table.add_row(f"{escape(title)} has no reference notes", "–", "–", "–", "0")
    return table


def _class_table(metrics: Mapping[str, Metric], item: SetResult, errors: NoteErrors) -> Table:
    table = _table("class (pooled)", "notes", "found", "onset F1", "offset F1", "leaks out", "leaks in")
    for name, notes, found, onset, offset, out, into in class_rows(metrics, item, errors):
        table.add_row(
            escape(name),
            f"{notes:,}",
            f"{found:,}",
            score_text(onset),
            score_text(offset),
            share_text(out),
            share_text(into),
        )
    return table


def share_text(value: float) -> str:
    """A share as a percentage; a dash for NaN."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    return table
