"""What is said of tokens that made no note."""

from __future__ import annotations

import pytest

from amt.inference.choices import DecodingChoices, left_out_text


@pytest.mark.parametrize(
    ("count", "total", "constrained", "said"),
    [
        (0, 3400, False, ""),
        (
            12,
            3400,
            False,
            "12 of 3,400 tokens made no note and were left out (--constrain avoids most of that)",
        ),
        (1, 3400, True, "1 of 3,400 tokens made no note and was left out"),
        (1, 0, True, "1 token made no note and was left out"),
        (2, 0, False, "2 tokens made no note and were left out (--constrain avoids most of that)"),
    ],
)
def test_tokens_that_are_left_out(count: int, total: int, constrained: bool, said: str) -> None:
    assert left_out_text(count, total, constrained=constrained) == said


def test_instruments_constrain_too() -> None:
    assert not DecodingChoices().constrained
    assert DecodingChoices(constrain=True).constrained
    assert DecodingChoices(instruments=("Piano",)).constrained
