"""Charts as inline SVG, coloured by the page's own style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
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
    across = [x for line in lines for x, _ in line.points]
    x_ticks = _ticks(min(0.0, *across), max(0.0, *across))
    values = [y for line in lines for _, y in line.points]
    y_ticks = _ticks(*(y_range or (min(0.0, min(values)), max(values))))
    x_low, x_span, (y_low, y_high) = x_ticks[0], x_ticks[-1] - x_ticks[0] or 1.0, (y_ticks[0], y_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (x - x_low) / x_span * (_WIDTH - _LEFT - _RIGHT)
        share = (min(max(y, y_low), y_high) - y_low) / ((y_high - y_low) or 1.0)
        return across, _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in y_ticks:
        _, y = place(0, tick)
        parts += _y_tick(y, tick)
    for tick in x_ticks:
        x, _ = place(tick, 0)
        parts.append(_x_tick(x, tick))
    parts.append(_x_name(x_label))
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


def bar_chart(
    centres: Sequence[float], counts: Sequence[int], x_label: str, is_off: Callable[[float], bool]
) -> str:
    """An ``<svg>`` element of bars, 560 x 260.

    Args:
        centres: middle of each bar, rising by equal steps.
        counts: height of each bar.
        x_label: name of the x axis.
        is_off: whether the bar at a centre is drawn in the other colour (CSS class ``off``).
    """
    if not any(counts):
        return '<p class="quiet">There is nothing to count.</p>'
    y_ticks = _ticks(0.0, float(max(counts)))
    step = centres[1] - centres[0]
    low, span = centres[0] - step / 2, centres[-1] - centres[0] + step

    def place(x: float) -> float:
        return _LEFT + (x - low) / span * (_WIDTH - _LEFT - _RIGHT)

    def height(count: float) -> float:
        return count / y_ticks[-1] * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in y_ticks:
        parts += _y_tick(_HEIGHT - _BOTTOM - height(tick), tick)
    for tick in _ticks(centres[0], centres[-1]):
        if low <= tick <= low + span:
            parts.append(_x_tick(place(tick), tick))
    parts.append(_x_name(x_label))
    for centre, count in zip(centres, counts, strict=True):
        left, top = place(centre - 0.42 * step), _HEIGHT - _BOTTOM - height(count)
        width = place(centre + 0.42 * step) - left
        tip = html.escape(f"{_number(centre)}: {count}")
        parts.append(
            f'<rect class="bar{" off" if is_off(centre) else ""}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{width:.1f}" height="{height(count):.1f}"><title>{tip}</title></rect>'
        )
    parts.append("</svg>")
    return "".join(parts)


def _y_tick(y: float, tick: float) -> tuple[str, str]:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>',
    )


def _x_tick(x: float, tick: float) -> str:
    return f'<text x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{_number(tick)}</text>'


def _x_name(x_label: str) -> str:
    return f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 1}" text-anchor="end">{html.escape(x_label)}</text>'


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
