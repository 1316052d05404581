"""docs/api.md: the names that it promises, its example, and its reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amt.cli.api_reference import PUBLIC, resolve

API = Path(__file__).resolve().parents[2] / "docs" / "api.md"
TEXT = API.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_promised_names_are_there() -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    promised = {name: value for name, value in names.items() if not name.startswith("__")}
    assert len(promised) == 21
    assert all(callable(value) for value in promised.values())
    documented = {name.partition(".")[0] for public in PUBLIC.values() for name in public}
    assert set(promised) <= documented, "each has an entry in the reference"


@pytest.mark.parametrize("name", [f"{module} {name}" for module, names in PUBLIC.items() for name in names])
def test_every_public_name_says_what_it_is_for(name: str) -> None:
    found = resolve(*name.split())
    assert callable(found)
    assert found.__doc__
    assert not found.__doc__.startswith(f"{found.__name__}("), "a docstring of its own, not dataclass's"
    assert f"#### {name.split()[1]}\n" in TEXT


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[1], {})
    assert capsys.readouterr().out == "1.0\n"
