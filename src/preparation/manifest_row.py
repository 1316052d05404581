"""The values of one row of a manifest; what is wrong with them is noted with the row, and reading goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..notes.note import DRUM_PROGRAM
from .folders import existing_file

_TRUTH = {
    "": False,
    **dict.fromkeys(("true", "yes", "1"), True),
    **dict.fromkeys(("false", "no", "0"), False),
}


class Row:
    """A row being read: its values, and the list that takes what is wrong with it."""

    def __init__(self, place: str, values: Mapping[str, Any], folder: Path, problems: list[str]) -> None:
        self.place = place
        self.values = {key: value for key, value in values.items() if value not in ("", None)}
        self.folder = folder
        self._problems = problems

    def wrong(self, text: str) -> None:
        """Note what is wrong with the row."""
        self._problems.append(f"{self.place}: {text}")

    def text(self, key: str) -> str:
        """A text, or a whole number as one; empty where there is none."""
        value = self.values.get(key, "")
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            self.wrong(f"{key} is {value!r}, not a text")
            return ""
        return str(value).strip()

    def truth(self, key: str) -> bool:
        """Whether something is said to be so."""
        value = self.values.get(key, "")
        if isinstance(value, bool):
            return value
        known = _TRUTH.get(str(value).strip().lower())
        if known is None:
            self.wrong(f"{key} is {value!r}, not true or false")
        return bool(known)

    def number(self, key: str) -> float:
        """A finite number; 0 where there is none."""
        value = self.values.get(key, 0.0)
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not math.isfinite(found) or isinstance(value, bool):
            self.wrong(f"{key} is {value!r}, not a number")
            return 0.0
        return found

    def programs(self, key: str, value: Any, last: int = DRUM_PROGRAM) -> tuple[int, ...]:
        """Whole numbers from 0 to ``last``: a list, a number, or a text parted by ``+`` or spaces.

        ``100.0`` is whole, as programs that write tables have it.
        """
        parts = value if isinstance(value, list) else re.split(r"[+\s]+", str(value).strip())
        found = []
        for part in parts:
            if part == "":
                continue
            whole = re.fullmatch(r"(\d{1,3})(\.0*)?", str(part))
            if whole is not None and int(whole[1]) <= last:
                found.append(int(whole[1]))
            else:
                self.wrong(f"{key} holds {part!r}; programs are whole numbers from 0 to {last}")
        return tuple(found)

    def file(self, key: str, value: Any) -> Path | None:
        """An existing file (:func:`.folders.existing_file`); relative paths start at the manifest."""
        if not isinstance(value, str):
            self.wrong(f"{key} is {value!r}, not a path")
            return None
        value = value.strip()
        path = existing_file(self.folder, value)
        if path is None:
            self.wrong(f"{key} {self.folder / value} is missing")
        return path
