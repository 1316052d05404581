"""Files that code, scripts and pages of the project name are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"\b(?:benchmarks|docs|tests|examples|train_scripts)/[\w./-]+\.(?:py|md|sh|json)\b")
PLACES = ("src", "benchmarks", "examples", "train_scripts", "docs")


def test_named_files_exist() -> None:
    paths = [path for place in PLACES for path in sorted((ROOT / place).rglob("*"))]
    paths += [*ROOT.glob("*.md"), ROOT / "Makefile"]
    texts = [path for path in paths if path.suffix in {".py", ".md", ".sh", ""} and path.is_file()]
    named = {name: path for path in texts for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 30
    assert {name: path for name, path in named.items() if not (ROOT / name).exists()} == {}
