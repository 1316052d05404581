"""Writes the tables of ``docs/training.md`` from the declarations, the picture of the layers of
``docs/architecture.md`` from ``pyproject.toml``, and the packages of ``docs/licences.md`` from what is
installed, and the reference of ``docs/api.md`` from the docstrings: ``python -m amt.cli.document``.

The text around the tables is written by hand; each table stands between two marks that name it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..config.recipes import AUGMENT_PROFILES, RECIPES
from . import api_reference, dependency_table
from .assemble import show
from .command import EXIT_ERROR, EXIT_OK, run_command
from .options import GROUPS, OPTIONS
from .parser import UsageError, help_text, metavar
from .train import environment_rows, option_defaults

_ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = Path("docs") / "training.md"


def options_table() -> str:
    """Every option of ``train.py``, by group."""
    defaults = option_defaults()
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"**{group[0].upper()}{group[1:]}**", "", "| option | default | meaning |", "|---|---|---|"]
        for option in OPTIONS:
            if option.group == group:
                names = " ".join(f"`{name}`" for name in option.names)
                values = metavar(option)
                default = defaults.get(option.long, "")
                lines.append(
                    f"| {names}{f' {values}' if values else ''} | {f'`{default}`' if default else ''} "
                    f"| {help_text(option)} |"
                )
        lines.append("")
    return "\n".join(lines).rstrip()


def variables_table() -> str:
    """Every ``AMT_`` variable Python reads."""
    rows = [
        f"| `{name}` | {f'`{default}`' if default else ''} | {text} |"
        for name, default, text in environment_rows()
    ]
    return "\n".join(["| variable | default | effect |", "|---|---|---|", *rows])


def profiles_table() -> str:
    """What each profile of ``--augment`` stands for."""
    flags = {option.targets[0]: option for option in OPTIONS if len(option.targets) == 1}
    rows = []
    for name, fields in AUGMENT_PROFILES.items():
        written = " ".join(
            f"{flags[f'augmentation.{key}'].names[0]} {show(value)}" for key, value in fields.items()
        )
        rows.append(f"| `{name}` | `{written}` |")
    return "\n".join(["| profile | the same as |", "|---|---|", *rows])


def recipes_table() -> str:
    """The values of each recipe."""
    lines: list[str] = []
    for name, values in RECIPES.items():
        lines += [f"`--recipe {name}`:", "", "| value | set to |", "|---|---|"]
        lines += [f"| `{leaf}` | `{show(value)}` |" for leaf, value in values.items()]
    return "\n".join(lines)


def layers_picture() -> str:
    """The layers of the import contract, each in a line; what stands in one does not import each other unless
    it says so."""
    file = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (contract,) = tomllib.loads(file)["tool"]["importlinter"]["contracts"]
    rows = []
    for layer in contract["layers"]:
        rooms = [room.removeprefix("amt.") for room in re.split(r" *[|:] *", layer)]
        rows.append("   ".join(rooms) + ("   (may import each other)" if ":" in layer else ""))
    width = max(map(len, rows))
    edge = "+" + "-" * (width + 2) + "+"
    boxes = [f"| {row:^{width}} |" for row in rows]
    between = f"\n{edge}\n{'v':^{width + 4}}".rstrip() + f"\n{edge}\n"
    return "\n".join(["```text", edge, between.join(boxes), edge, "```"])


Tables = Mapping[str, Callable[[], str]]
TABLES: Tables = {
    "options": options_table,
    "variables": variables_table,
    "profiles": profiles_table,
    "recipes": recipes_table,
}


DOCUMENTS: dict[Path, Tables] = {
    DOCUMENT: TABLES,
    Path("docs") / "architecture.md": {"layers": layers_picture},
    dependency_table.PAGE: {"dependencies": dependency_table.dependencies_table},
    api_reference.PAGE: {"reference": api_reference.api_reference},
}
"""Pages with generated parts."""


def refresh(text: str, tables: Tables = TABLES) -> str:
    """``text`` with the body of every marked table made anew.

    Raises:
        ValueError: when the marks of a table are missing.
    """
    for name, table in tables.items():
        start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        head, start_found, rest = text.partition(start)
        _, end_found, tail = rest.partition(end)
        if not start_found or not end_found:
            raise ValueError(f"the document lacks the marks {start} and {end}")
        text = f"{head}{start}\n{table()}\n{end}{tail}"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Write the documents of this checkout; ``--check`` only compares it."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    if list(argv) not in ([], ["--check"]):
        raise UsageError("python -m amt.cli.document knows only --check")
    status = EXIT_OK
    for document, tables in DOCUMENTS.items():
        path = _ROOT / document
        old = path.read_text(encoding="utf-8")
        new = refresh(old, tables)
        if old == new:
            continue
        if argv:
            print(f"{document} is not current: run python -m amt.cli.document", file=sys.stderr)
            status = EXIT_ERROR
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{document} written")
    return status


if __name__ == "__main__":
    sys.exit(main())
