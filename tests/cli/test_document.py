"""docs/training.md says what the declarations say."""

from __future__ import annotations

import re
import shlex
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


PAGES = ["README.md", "README.zh-CN.md"]
PAGES += [f"docs/{name}.md" for name in ("data", "extending", "models", "objective", "runs", "training")]


@pytest.mark.parametrize("name", PAGES)
def test_commands_in_the_documents_are_understood(name: str) -> None:
    """Every train.py command line in the documents parses, and its flags go together."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^[^|`]*\btrain\.py ([^|`]*)$", text, re.MULTILINE)
    assert found
    for line in found:
        words = shlex.split(line.partition("  #")[0])
        command = parse([word for word in words if word != "..."], OPTIONS)
        assert command.words, line
        if not command.has("--config"):  # a file of the reader
            resolve(command.words[0], command, read_environment({}))
