"""The package: its folders, its metadata, and which way its imports point."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = sorted(path.parent for path in SRC.rglob("__init__.py") if "__pycache__" not in path.parts)


def package_name(folder: Path) -> str:
    return ".".join(("amt", *folder.relative_to(SRC).parts))


def test_packages_are_the_folders() -> None:
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert listed == sorted(listed)
    assert listed == sorted(package_name(folder) for folder in FOLDERS)


def test_every_folder_with_code_is_a_package() -> None:
    code = {path.parent for path in SRC.rglob("*.py") if "__pycache__" not in path.parts}
    assert code == set(FOLDERS)


def test_no_folder_has_the_name_of_a_library_or_standard_module() -> None:
    installed = set(importlib.metadata.packages_distributions())
    taken = set(sys.stdlib_module_names) | installed | {"datasets", "tokenizers", "evaluate"}
    for folder in FOLDERS:
        if folder != SRC:
            assert folder.name not in taken, folder


def test_entry_points_exist() -> None:
    for name, target in PROJECT["project"]["scripts"].items():
        module, _, function = target.partition(":")
        file = SRC / f"{module.removeprefix('amt.')}.py"
        assert file.is_file(), name
        assert f"def {function}(" in file.read_text(encoding="utf-8")


def test_no_machine_paths_in_the_tree() -> None:
    roots = [SRC, ROOT / "train_scripts", ROOT / "docs", ROOT / ".ci"]
    files = [
        path
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    files += [ROOT / "Makefile", ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    for path in files:
        text = path.read_text(encoding="utf-8", errors="ignore")
        assert not re.search(r"(^|[^A-Za-z0-9_.])/(work|home|root|Users)/", text), path


INSTALLED = ("quickstart", "dev", "docs", "onnx")
"""Extras that ``make install`` installs."""


def test_make_installs_the_extras_that_the_tests_need() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f'-c constraints.txt -e ".[{",".join(INSTALLED)}]"' in makefile
    assert set(INSTALLED) <= set(PROJECT["project"]["optional-dependencies"])


def constraints() -> dict[str, str]:
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
            assert match, f"constraints.txt: {line!r} is no exact version"
            pins[canonicalize_name(match[1])] = match[2]
    return pins


def test_constraints_pin_every_dependency_within_its_bounds() -> None:
    pins = constraints()
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *(text for name in INSTALLED for text in extras[name])]:
        requirement = Requirement(text)
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(pin), (
            f"{requirement.name}=={pin} is outside {requirement.specifier}"
        )


def test_dependencies_have_an_upper_bound() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *(text for name in INSTALLED for text in extras[name])]:
        assert any(part.operator in ("<", "==") for part in Requirement(text).specifier), text


def test_constraints_are_complete() -> None:
    """What the pinned packages need themselves is pinned as well (as far as they are installed here)."""
    pins = constraints()
    missing: set[str] = set()
    for name in pins:
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for text in needed:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                missing.add(canonicalize_name(requirement.name))
    assert missing - set(pins) <= {"setuptools"}


def test_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_imports_point_down() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("amt", {"torch", "numpy", "pytorch_lightning"}),
        ("amt.config", {"torch", "numpy", "pytorch_lightning"}),
        ("amt.config.presets", {"torch", "numpy"}),
        ("amt.config.tasks", {"torch", "numpy"}),
        ("amt.cli.train", {"torch", "numpy", "pytorch_lightning", "transformers"}),
        ("amt.cli.predict", {"torch", "numpy", "pytorch_lightning", "transformers"}),
        ("amt.cli.predict_batch", {"torch", "numpy", "pytorch_lightning", "transformers"}),
        ("amt.cli.test", {"torch", "numpy", "pytorch_lightning", "transformers"}),
        ("amt.cli.prepare", {"torch", "numpy", "music21", "symusic"}),
        ("amt.cli.export", {"torch", "numpy", "safetensors"}),
        ("amt.cli.serve", {"torch", "numpy", "pytorch_lightning", "transformers"}),
        ("amt.cli.quickstart", {"torch", "numpy", "music21", "symusic"}),
        ("amt.training.identity", {"torch", "numpy", "pytorch_lightning"}),
        ("amt.notes", {"torch", "pytorch_lightning"}),
        ("amt.tokenizer", {"torch", "pytorch_lightning"}),
        ("amt.evaluation", {"torch", "pytorch_lightning"}),
        ("amt.inference", {"torch", "pytorch_lightning"}),
    ],
)
def test_imports_are_light(module: str, forbidden: set[str]) -> None:
    assert not imported_by(f"import {module}") & forbidden


def test_config_needs_the_standard_library_only() -> None:
    files = sorted((SRC / "config").rglob("*.py"))
    modules = [".".join(("amt", *path.relative_to(SRC).with_suffix("").parts)) for path in files]
    modules = [name.removesuffix(".__init__") for name in modules]
    found = imported_by("; ".join(f"import {name}" for name in modules))
    bare = imported_by("import sys")
    foreign = found - bare - set(sys.stdlib_module_names) - {"amt"}
    assert not {name for name in foreign if not name.startswith("_")}
