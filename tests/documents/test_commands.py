"""Every command and every piece of code in the documents is one that the programs understand.

Command lines are read by the parsers of the commands themselves and go no further; what they do has tests of
its own. Pages that are followed to the letter have theirs: data, extending, evaluation, runs, tokens.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from amt.cli.assemble import resolve
from amt.cli.config_file import read_config
from amt.cli.options import OPTIONS
from amt.cli.parser import CommandLine, UsageError, parse
from amt.config.environment import SCRIPT_VARIABLES, VARIABLES, read_environment

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KNOWN_VARIABLES = (
    {item.name for item in VARIABLES} | set(SCRIPT_VARIABLES) | {"QUICKSTART_MINUTES", "FUZZ_EXAMPLES"}
)
STARTS = re.compile(
    r"(\w+=\S+ )*(cd|source|make|bash|srun|pip|(\.venv/bin/)?python3?|\w+\.py|amt-[\w-]+)( |$)"
)


def fences(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


FOLLOWED = ROOT / "docs" / "extending.md"
"""Its commands need what the page adds; tests/tokenizer/test_extending.py does as it says."""


def commands(text: str) -> list[str]:
    """The lines of a block, when it is one of commands: then every line has to be one."""
    lines = [re.sub(r"(^|\s+)#.*", "", line) for line in text.splitlines()]
    return [line for line in lines if line] if any(STARTS.match(line) for line in lines) else []


ALL = [(page, line) for page in PAGES for text in fences(page, "", "bash") for line in commands(text)]
ALL = [(page, line) for page, line in ALL if page != FOLLOWED]
INDEX = ROOT / "docs" / "index.md"
ALL += [(INDEX, line) for line in re.findall(r"`(amt-[\w-]+ [^`]+)`", INDEX.read_text(encoding="utf-8"))]


class Understood(BaseException):
    """Ends a command whose words were understood, before it does anything."""


def parse_only(words: list[str], *tables: Any) -> CommandLine:
    parse(words, *tables)
    raise Understood


def check_program(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The words after ``amt-<name>``."""
    words = [word for word in words if word != "..."]
    if name == "train":
        command = parse(words, OPTIONS)
        assert command.words, "the name of the run"
        if not command.has("--config"):  # a file of the reader
            resolve(command.words[0], command, read_environment({}))
        return
    module = importlib.import_module(f"amt.cli.{name}")
    monkeypatch.setattr(module, "parse", parse_only)
    with pytest.raises(Understood):
        module._run(words)


def check(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command of a line, without ``&&``."""
    words = shlex.split(line)
    while words and re.match(r"[A-Z_]+=", words[0]):
        assert words.pop(0).partition("=")[0] in KNOWN_VARIABLES
    if words[0] == "srun":
        words.pop(0)
    if words[0] in ("head", "source"):
        assert words[1:] in ([], [".venv/bin/activate"])
        return
    if words[0] == "cd":
        assert words[1] == ".." or (ROOT / words[1]).is_dir()
        return
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in words[1:]:
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"no target {target}"
        return
    if words[0] == "pip":
        assert words[1] == "install"
        return
    if words[0] == "bash":
        assert (ROOT / words[1]).is_file()
        parse(words[2:], OPTIONS)
        return
    if words[0].startswith("amt-"):
        assert words[0] in PROJECT["scripts"]
        name, words = words[0].removeprefix("amt-").replace("-", "_"), words[1:]
        return check_program(name, words, monkeypatch)
    if words[0].removeprefix(".venv/bin/") == "python":
        words.pop(0)
    if words[:2] == ["-m", "pytest"]:
        assert (ROOT / words[2]).exists()
        return
    if words[0] == "-m":
        name = words[1].removeprefix("amt.").removeprefix("cli.")
        return check_program(name, words[2:], monkeypatch)
    assert words[0].endswith(".py"), "no known command"
    place = Path(words[0])
    if place.parent.name in ("benchmarks", "examples"):
        text = (ROOT / place).read_text(encoding="utf-8")
        # options of other commands are quoted
        flags = [word for word in shlex.split(" ".join(words)) if word.startswith("-")]
        for flag in flags:
            assert flag in text or flag in {name for option in OPTIONS for name in option.names}, flag
        return
    assert (ROOT / "src" / place.name).is_file()
    check_program(place.stem, words[1:], monkeypatch)


@pytest.mark.parametrize(
    ("page", "line"), ALL, ids=lambda value: value.name if isinstance(value, Path) else value
)
def test_commands_are_understood(page: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in re.split(r" && | \| ", line):
        check(part, monkeypatch)


def test_most_pages_have_commands() -> None:
    with_some = {page.stem for page, _ in ALL}
    assert {"README", "README.zh-CN", "index", "data", "training", "runs", "predict", "models"} <= with_some
    assert len(ALL) > 90


@pytest.mark.parametrize(
    "line", ["python train.py exp --no-such-flag 1", "make no-such", "amt-dance x", "dance"]
)
def test_a_mistake_would_be_found(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((UsageError, AssertionError)):
        check(line, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_python_and_its_imports_exist(page: Path) -> None:
    for text in fences(page, "python"):
        if text.startswith(" "):  # a row of a table
            text = f"{{\n{text}\n}}" if text.lstrip().startswith('"') else f"[\n{text}\n]"
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_is_a_configuration(page: Path, tmp_path: Path) -> None:
    for text in fences(page, "yaml"):
        for name in re.findall(r"[\w/]+\.yaml", text):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("", encoding="utf-8")
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        assert read_config(tmp_path / "run.yaml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_exist(page: Path) -> None:
    for names in re.findall(r"amt\[([\w,]+)\]", page.read_text(encoding="utf-8")):
        assert set(names.split(",")) <= set(PROJECT["optional-dependencies"])


def outline(page: Path) -> list[str]:
    """What both readmes must have alike: levels of headings, commands, code, links, rows of tables."""
    text = page.read_text(encoding="utf-8")
    parts: list[str] = []
    for line in re.sub(r"^```python\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        if re.match(r"#+ ", line):
            parts.append(line.partition(" ")[0])
        elif line.startswith("|"):
            parts.append(f"row of {line.count('|')}")
    parts += [line for block in fences(page, "") for line in commands(block)]
    parts += fences(page, "python")
    return parts + sorted(set(re.findall(r"\]\(((?!README)[^)]+)\)", text)))


def test_the_readmes_are_in_step() -> None:
    assert outline(ROOT / "README.zh-CN.md") == outline(ROOT / "README.md")


def test_full_size_scripts_of_the_readme_run_dry() -> None:
    lines = [line for page, line in ALL if page.name == "README.md" and "bash train_scripts/" in line]
    assert lines
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AMT_")}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            env=clean | {"AMT_DRY_RUN": "1", "AMT_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "train.py" in done.stdout
