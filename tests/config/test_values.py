"""Numbers and switches out of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amt.config.values import looks_like_number, read_value


@given(st.integers())
def test_integers_return(value: int) -> None:
    assert read_value("int", str(value)) == value
    assert looks_like_number(str(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_return(value: float) -> None:
    assert read_value("float", repr(value)) == value
    assert looks_like_number(repr(value))


@given(st.booleans())
def test_booleans_return(value: bool) -> None:
    assert read_value("bool", str(value)) is value


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "1e999", "0x10", "1_0", "one", "1 2"])
def test_not_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="expects a number"):
        read_value("float", text)


@pytest.mark.parametrize("text", ["", "tru", "2", "-1", "none"])
def test_not_a_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="true or false"):
        read_value("bool", text)
