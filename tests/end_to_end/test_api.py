"""The imports that docs/api.md promises."""

from __future__ import annotations

import re
from pathlib import Path

API = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_promised_names_are_there() -> None:
    block = re.search(r"```python\n(.*?)```", API.read_text(encoding="utf-8"), re.S)
    assert block is not None
    names: dict[str, object] = {}
    exec(block[1], names)
    promised = [value for name, value in names.items() if not name.startswith("__")]
    assert len(promised) == 17
    assert all(callable(value) for value in promised)
