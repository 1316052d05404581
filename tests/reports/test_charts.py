"""Charts: where lines and bars end up."""

import math
import re

from amt.reports.charts import Series, bar_chart, line_chart, smooth


def test_charts() -> None:
    svg = line_chart([Series("a", ((0, 0.0), (100, 1.0), (50, math.nan)), marks=True)], "step", (0, 1))
    assert svg.count("<circle") == 2
    assert 'points="48.0,226.0 546.0,12.0"' in svg
    assert "nan" not in svg
    for values in ([0.0], [5.0, 5.0], [-3.0, 2.0], [1e-7, 3e-7], [1e6, 4e6]):
        line_chart([Series("b", tuple(enumerate(values)))], "x")
    points = [(float(i), float(i)) for i in range(1000)]
    assert len(smooth(points)) == 160
    assert smooth(points[:10]) == tuple(points[:10])
    means = [y for _, y in smooth(points)]
    assert means == sorted(means)
    assert (means[0], means[-1]) == (3.0, 996.5)


def test_lines_left_of_zero() -> None:
    svg = line_chart([Series("a", ((-100, 0.5), (0, 1.0), (100, 0.0)))], "ms", (0, 1))
    assert 'points="48.0,119.0 297.0,12.0 546.0,226.0"' in svg
    left = line_chart([Series("a", ((-100, 0.0), (-50, 1.0)))], "ms", (0, 1))
    assert 'points="48.0,226.0 297.0,12.0"' in left, "zero is in the picture"


def test_bars() -> None:
    svg = bar_chart([-10.0, 0.0, 10.0], [2, 4, 0], "ms", lambda centre: abs(centre) > 5)
    bars = re.findall(
        r'<rect class="([^"]*)" x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="([0-9.]+)"', svg
    )
    assert [bar[0] for bar in bars] == ["bar off", "bar", "bar off"]
    assert [float(bar[4]) for bar in bars] == [107.0, 214.0, 0.0]
    assert float(bars[1][2]) == 12.0
    centres = [float(bar[1]) + float(bar[3]) / 2 for bar in bars]
    assert centres[1] == 297.0
    assert "<title>-10: 2</title>" in svg
    assert "nothing to count" in bar_chart([-1.0, 0.0, 1.0], [0, 0, 0], "ms", lambda centre: False)
