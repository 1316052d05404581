"""A picture of notes: pitch over time, in rows like a score, with the reference behind the estimate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.names import counted
from ..notes.note import Note
from .colours import DRUMS, family_colour, instrument_family
from .files import atomic_path

_ROW_SECONDS = 30.0
_MAX_ROWS = 12
_WIDTH = 14.0
_LEFT, _TOP, _BELOW = 0.52, 0.46, 0.42
# Inches: left of the rows, above them, below each.
_NAMES = ("C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B")
_NATURAL = frozenset({0, 2, 4, 5, 7, 9, 11})
DRUM_LANES: tuple[tuple[str, frozenset[int]], ...] = (
    ("kick", frozenset({35, 36})),
    ("snare", frozenset({2, 37, 38, 39, 40})),
    ("hi-hat", frozenset({22, 26, 42, 44, 46})),
    ("toms", frozenset({41, 43, 45, 47, 48, 50, 58})),
    ("other", frozenset()),
)
"""Rows of the drums by the MIDI pitches in them; the last one takes all others."""
_REFERENCE = "#c3c9d4"
_INK = "#2b2f36"


def note_name(pitch: int) -> str:
    """Name of a MIDI pitch, middle C (60) is ``C4``."""
    return f"{_NAMES[pitch % 12]}{pitch // 12 - 1}"


def draw_piano_roll(
    path: str | Path,
    notes: Sequence[Note],
    reference: Sequence[Note] | None = None,
    duration: float | None = None,
    title: str = "",
) -> None:
    """Write a PNG of ``notes``, coloured by instrument, drums in their own lane.

    With ``reference`` its notes are grey boxes and the estimate narrower bars on top: a bar in a box is a
    hit, an empty box a miss, a bare bar an invention.

    Args:
        path: of the PNG; written whole or not at all.
        notes: the estimate (or whatever there is to show); may be empty.
        reference: what is there, or ``None``.
        duration: seconds to show; default to the end of the last note.
        title: one line above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    everything = [*notes, *(reference or ())]
    end = max([note.offset for note in everything], default=0.0) if duration is None else duration
    end = max(end, 1.0)
    rows = min(max(math.ceil(end / _ROW_SECONDS - 1e-9), 1), _MAX_ROWS)
    seconds = end / rows
    low, high = _pitch_range(everything)
    lanes = [name for name, _ in DRUM_LANES if any(_lane(n) == name for n in everything if n.is_drum)]
    units = (high - low + 1) + (len(lanes) + 1 if lanes else 0)
    height = min(max(units * 0.11, 2.0), 6.0)
    total = _TOP + rows * (height + _BELOW) + 0.12
    figure = Figure(figsize=(_WIDTH, total), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    for row in range(rows):
        bottom = (total - _TOP - height - row * (height + _BELOW)) / total
        place = (_LEFT / _WIDTH, bottom, 1 - (_LEFT + 0.15) / _WIDTH, height / total)
        axis = figure.add_axes(place)
        start = row * seconds
        _frame(axis, start, start + seconds, low, high, lanes)
        if reference is not None:
            _draw(axis, reference, start, start + seconds, low, lanes, 0.92, _REFERENCE)
        _draw(axis, notes, start, start + seconds, low, lanes, 0.86 if reference is None else 0.46)
        if row == rows - 1:
            axis.set_xlabel("time in seconds", color=_INK, fontsize=8.5, labelpad=2)
    _legend(figure, notes, reference, title)
    with warnings.catch_warnings():
        # Titles may hold letters the default font lacks; they show as boxes.
        warnings.simplefilter("ignore")
        with atomic_path(Path(path)) as temporary:
            figure.savefig(temporary, format="png")


def _pitch_range(notes: Sequence[Note]) -> tuple[int, int]:
    pitches = [note.pitch for note in notes if not note.is_drum]
    low, high = (min(pitches) - 2, max(pitches) + 2) if pitches else (60, 72)
    missing = max(14 - (high - low), 0)
    return low - missing // 2, high + missing - missing // 2


def _lane(note: Note) -> str:
    return next((name for name, pitches in DRUM_LANES if note.pitch in pitches), "other")


def _lane_height(lanes: Sequence[str], name: str, low: int) -> float:
    return low - 1.5 - lanes.index(name)


def _frame(axis: Any, start: float, stop: float, low: int, high: int, lanes: Sequence[str]) -> None:
    """Axes in seconds and note names."""
    axis.set_xlim(start, stop)
    axis.set_ylim(low - 0.5 - (len(lanes) + 1 if lanes else 0), high + 0.5)
    span = high - low
    shown = [p for p in range(low, high + 1) if p % 12 == 0 or (span <= 30 and p % 12 in _NATURAL)]
    for pitch in range(low, high + 1):
        if pitch % 12 not in _NATURAL:
            axis.axhspan(pitch - 0.5, pitch + 0.5, color="#f4f5f8", lw=0, zorder=0)
        elif pitch % 12 == 0:
            axis.axhline(pitch - 0.5, color="#d5d9e0", lw=0.8, zorder=0.5)
    labels = [(float(p), note_name(p)) for p in shown]
    if lanes:
        axis.axhline(low - 0.5, color="#aab0bb", lw=0.8, zorder=0.5)
        labels += [(_lane_height(lanes, name, low), name) for name in lanes]
    axis.set_yticks([place for place, _ in labels], [text for _, text in labels], fontsize=7)
    axis.tick_params(axis="both", length=2, color="#aab0bb", labelcolor=_INK, labelsize=7.5)
    axis.grid(axis="x", color="#e3e6ec", lw=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#aab0bb")


def _draw(
    axis: Any,
    notes: Sequence[Note],
    start: float,
    stop: float,
    low: int,
    lanes: Sequence[str],
    thick: float,
    colour: str | None = None,
) -> None:
    """Notes between ``start`` and ``stop``, ``thick`` semitones high, in one colour or their own."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    groups: dict[str, list[Any]] = {}
    for note in notes:
        if note.offset < start or note.onset >= stop:
            continue
        if note.is_drum:
            middle, length = _lane_height(lanes, _lane(note), low), (stop - start) * 0.0022
        else:
            middle, length = float(note.pitch), max(note.offset - note.onset, (stop - start) * 0.001)
        box = Rectangle((note.onset, middle - thick / 2), length, thick)
        groups.setdefault(colour or family_colour(instrument_family(note)), []).append(box)
    for paint, boxes in groups.items():
        axis.add_collection(
            PatchCollection(
                boxes, facecolor=paint, edgecolor="white", linewidth=0.4, zorder=2 if colour else 3
            )
        )


def _legend(figure: Any, notes: Sequence[Note], reference: Sequence[Note] | None, title: str) -> None:
    from matplotlib.patches import Patch

    families = dict.fromkeys(instrument_family(note) for note in notes)
    entries = [Patch(facecolor=family_colour(f), label=f) for f in families if f != DRUMS]
    if DRUMS in families:
        entries.append(Patch(facecolor=family_colour(DRUMS), label=DRUMS))
    if reference is not None:
        entries.append(Patch(facecolor=_REFERENCE, label=f"Reference ({counted(len(reference), 'note')})"))
    top = 1 - 0.12 / figure.get_figheight()
    figure.text(
        0.012, top, title, ha="left", va="top", fontsize=12, color=_INK, fontweight="bold", parse_math=False
    )
    if entries:
        figure.legend(
            handles=entries,
            loc="upper right",
            bbox_to_anchor=(0.995, 1 - 0.02 / figure.get_figheight()),
            ncols=min(len(entries), 7),
            fontsize=8,
            frameon=False,
            handlelength=1.2,
        )
