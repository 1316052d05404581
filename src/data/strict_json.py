"""JSON files read strictly: what is silently wrong in hour three is an error at the start."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .patience import unreadable


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in the JSON file ``path``.

    A byte order mark is accepted. NaN and Infinity, numbers too large for a float, duplicate keys, text that
    is not UTF-8, an empty file and a value that is no object are errors.

    Raises:
        ValueError: names the file and what is wrong with it.
    """
    loaded = read_json(path)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: the file must hold a JSON object, not a {type(loaded).__name__}")
    return loaded


def read_json(path: Path) -> Any:
    """The value in the JSON file ``path``; same rules as :func:`read_json_object`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing") from None
    except OSError as error:
        raise unreadable(error, path) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not UTF-8 text") from None
    return parse_json(text, path)


def parse_json(text: str, path: Path) -> Any:
    """The value in ``text``, read from ``path``; same rules, and errors, as :func:`read_json_object`."""
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    try:
        return json.loads(
            text, parse_float=_finite, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: not valid JSON, line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice in one object")
        found[key] = value
    return found
