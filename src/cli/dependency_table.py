"""The table of ``docs/licences.md``: what the project asks for, and the licence each package states."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs") / "licences.md"
_SHORT = {
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF",
}
"""Other words for the same licence."""


def stated_licence(package: str) -> str | None:
    """What the metadata of an installed package say; None when it is not installed."""
    try:
        about = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    names = list(about.get_all("License-Expression") or [])
    for text in about.get_all("License") or []:
        names += text.strip().splitlines()[:1]
    for classifier in about.get_all("Classifier") or []:
        if classifier.startswith("License :: "):
            names.append(classifier.rpartition(" :: ")[2])
    # A whole text in the field begins with a title or with a sentence of its own.
    known = [_SHORT.get(name, name) for name in names if name and (name in _SHORT or len(name) < 20)]
    return known[0] if known else next((name for name in names if " AND " in name), "see its files")


def requirements() -> dict[str, list[str]]:
    """Packages of ``pyproject.toml``: name to the extras that ask for it, empty for what is always needed."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, list[str]] = {_name(text): [] for text in project["dependencies"]}
    for extra, texts in project["optional-dependencies"].items():
        for text in texts:
            found.setdefault(_name(text), []).append(extra)
    return found


def dependencies_table() -> str:
    """A row for each requirement; of one that is not installed here the page's own row stays."""
    page = (_ROOT / PAGE).read_text(encoding="utf-8")
    before = dict(re.findall(r"^\| `([\w.-]+)` \| ([^|]+) \| (?:always|`amt\[.*) \|$", page, re.MULTILINE))
    rows = []
    for name, extras in requirements().items():
        licence = stated_licence(name) or before.get(name, "not installed where this was made")
        needed = ", ".join(f"`amt[{extra}]`" for extra in extras) or "always"
        rows.append(f"| `{name}` | {licence} | {needed} |")
    return "\n".join(["| package | licence it states | needed for |", "|---|---|---|", *rows])


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None, requirement
    return match[0]
