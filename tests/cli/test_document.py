"""docs/training.md says what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amt.cli.assemble import resolve
from amt.cli.document import DOCUMENT, TABLES, main, profiles_table, refresh
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import VARIABLES, read_environment
from amt.config.recipes import AUGMENT_PROFILES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / DOCUMENT).read_text(encoding="utf-8")


def test_a_profile_is_the_same_as_its_row() -> None:
    rows = re.findall(r"\| `(\w+)` \| `(.*)` \|", profiles_table())
    assert {name for name, _ in rows} == set(AUGMENT_PROFILES)
    for name, flags in rows:
        written, named = (
            resolve("e", parse(["e", *line.split()], OPTIONS), read_environment({})).experiment
            for line in (flags, f"--augment {name}")
        )
        assert written == named


def test_it_is_current() -> None:
    assert refresh(TEXT) == TEXT, "run python -m amt.cli.document"
    assert main(["--check"]) == 0


def test_it_names_every_option_and_variable() -> None:
    for option in OPTIONS:
        assert f"`{option.long}`" in TEXT
    for variable in VARIABLES:
        assert f"`{variable.name}`" in TEXT


def test_a_stale_table_is_made_anew() -> None:
    stale = TEXT.replace("`--max-steps`", "`--gone`")
    assert stale != TEXT
    assert refresh(stale) == TEXT


def test_marks_are_needed() -> None:
    for name in TABLES:
        with pytest.raises(ValueError, match=name):
            refresh(TEXT.replace(f"<!-- {name}: end -->", ""))
