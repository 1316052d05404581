"""Reading switches and numbers from text: one rule for flags and for variables."""

from __future__ import annotations

import math
import re

TRUE = ("true", "1", "yes", "t", "y", "on")
FALSE = ("false", "0", "no", "f", "n", "off")

KINDS = ("text", "int", "float", "bool")
"""What a flag or a variable can hold."""

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)

Scalar = str | int | float | bool


def looks_like_number(text: str) -> bool:
    """Whether ``text`` is written as a number, a negative one included."""
    return _NUMBER.fullmatch(text) is not None


def read_value(kind: str, text: str) -> Scalar:
    """The value of kind ``kind`` (one of :data:`KINDS`) that ``text`` writes.

    Raises:
        ValueError: when it does not; the message reads on after a name ("expects ..., not ...").
    """
    if kind == "bool":
        lowered = text.strip().lower()
        if lowered in TRUE:
            return True
        if lowered in FALSE:
            return False
        raise ValueError(f"expects true or false (also 1/0, yes/no), not {text!r}")
    if kind == "int":
        if _INT.fullmatch(text.strip()) is None:
            raise ValueError(f"expects a whole number, not {text!r}")
        return int(text)
    if kind == "float":
        if _NUMBER.fullmatch(text.strip()) is None or not math.isfinite(float(text)):
            raise ValueError(f"expects a number, not {text!r}")
        return float(text)
    assert kind == "text", kind
    return text
