"""Line charts as inline SVG, coloured by the page's own style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    label: str
    points: tuple[tuple[float, float], ...]
    """(x, y), any order; points that are not finite are left out."""
    marks: bool = False
    """Draw a dot at each point, with its value as a tooltip."""


_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 12, 34


def line_chart(series: Sequence[Series], x_label: str, y_range: tuple[float, float] | None = None) -> str:
    """An ``<svg>`` element, 560 x 260, that scales with its container.

    Args:
        series: lines, drawn with the CSS classes ``line-0``, ``line-1``, ...
        x_label: name of the x axis.
        y_range: ends of the y axis; default from the data.
    """
    lines = [
        Series(
            s.label,
            tuple(sorted(p for p in s.points if math.isfinite(p[0]) and math.isfinite(p[1]))),
            s.marks,
        )
        for s in series
    ]
    lines = [line for line in lines if line.points]
    if not lines:
        return '<p class="quiet">No values were logged.</p>'
    x_ticks = _ticks(0.0, max(x for line in lines for x, _ in line.points))
    values = [y for line in lines for _, y in line.points]
    y_ticks = _ticks(*(y_range or (min(0.0, min(values)), max(values))))
    x_end, (y_low, y_high) = x_ticks[-1] or 1.0, (y_ticks[0], y_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (x / x_end) * (_WIDTH - _LEFT - _RIGHT)
        share = (min(max(y, y_low), y_high) - y_low) / ((y_high - y_low) or 1.0)
        return across, _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in y_ticks:
        _, y = place(0, tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in x_ticks:
        x, _ = place(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{_number(tick)}</text>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 1}" text-anchor="end">{html.escape(x_label)}</text>'
    )
    for number, line in enumerate(lines):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in line.points))
        parts.append(f'<polyline class="line line-{number}" points="{path}"/>')
        if line.marks:
            for point in line.points:
                x, y = place(*point)
                tip = html.escape(f"{line.label}: {point[1]:.3f} at {x_label} {_number(point[0])}")
                parts.append(
                    f'<circle class="dot-{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">'
                    f"<title>{tip}</title></circle>"
                )
    parts.append("</svg>")
    keys = "".join(
        f'<span class="key"><i class="swatch-{number}"></i>{html.escape(line.label)}</span>'
        for number, line in enumerate(lines)
    )
    return f'{"".join(parts)}<div class="keys">{keys}</div>'


def smooth(points: Sequence[tuple[float, float]], most: int = 160) -> tuple[tuple[float, float], ...]:
    """At most ``most`` points, each the mean of its neighbours."""
    if len(points) <= most:
        return tuple(points)
    groups = np.array_split(np.asarray(sorted(points), dtype=np.float64), most)
    return tuple((float(group[:, 0].mean()), float(group[:, 1].mean())) for group in groups)


def _ticks(low: float, high: float) -> list[float]:
    span = high - low or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4.0))
    step *= next(factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (step * factor) <= 5.0 + 1e-9)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _number(value: float) -> str:
    if value and abs(value) >= 10000 and value % 1000 == 0:
        return f"{value / 1000:g}k"
    return f"{value:.10g}"
