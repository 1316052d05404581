"""Writes the tables of ``docs/training.md`` from the declarations: ``python -m amt.cli.document``.

The text around the tables is written by hand; each table stands between two marks that name it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.recipes import AUGMENT_PROFILES, RECIPES
from .assemble import show
from .command import EXIT_ERROR, EXIT_OK, run_command
from .options import GROUPS, OPTIONS
from .parser import UsageError, help_text, metavar
from .train import environment_rows, option_defaults

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


TABLES = {
    "options": options_table,
    "variables": variables_table,
    "profiles": profiles_table,
    "recipes": recipes_table,
}


def refresh(text: str) -> str:
    """``text`` with the body of every marked table made anew.

    Raises:
        ValueError: when the marks of a table are missing.
    """
    for name, table in TABLES.items():
        start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        head, start_found, rest = text.partition(start)
        _, end_found, tail = rest.partition(end)
        if not start_found or not end_found:
            raise ValueError(f"the document lacks the marks {start} and {end}")
        text = f"{head}{start}\n{table()}\n{end}{tail}"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Write the document of this checkout; ``--check`` only compares it."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    if list(argv) not in ([], ["--check"]):
        raise UsageError("python -m amt.cli.document knows only --check")
    path = Path(__file__).resolve().parents[2] / DOCUMENT
    old = path.read_text(encoding="utf-8")
    new = refresh(old)
    if old == new:
        return EXIT_OK
    if argv:
        print(f"{DOCUMENT} is not current: run python -m amt.cli.document", file=sys.stderr)
        return EXIT_ERROR
    path.write_text(new, encoding="utf-8")
    print(f"{DOCUMENT} written")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
