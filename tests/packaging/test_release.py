"""A release: a source archive, the wheel made from it, and a fresh environment that has only that wheel.

The packages that amt needs are borrowed from the environment of the tests, as torch alone takes gigabytes.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

from amt.data.store import StoreWriter
from amt.notes import Note, notes_to_array

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHECKOUT = ("pyproject.toml", "README.md", "LICENSE")
DATA = (".py", ".json", ".html", ".css", ".js", ".svg", ".typed")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
_WORDS = """
aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib
ossaudiodev pipes pkg_resources smtpd sndhdr spwd sunau telnetlib uu xdrlib
"""
REMOVED = frozenset(_WORDS.split())
"""Standard modules that Python 3.12 or 3.13 no longer has, and setuptools' pkg_resources."""

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
IMPORT_ALL = """
import importlib, json, pkgutil, socket, sys

def refuse(*given, **more):
    raise SystemExit("an import asked for the network")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
import amt

names = [item.name for item in pkgutil.walk_packages(amt.__path__, "amt.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([amt.__file__, len(names), sys.prefix]))
"""


def clean_environ(**more: str) -> dict[str, str]:
    """Without this project's variables, and without anything that makes Python see the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AMT_", "PYTHON"))}
    return kept | more


def call(*command: str | Path, cwd: Path, **more: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environ(**more),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of_the_package() -> set[Path]:
    found = {path for path in SRC.rglob("*") if path.suffix in DATA and "__pycache__" not in path.parts}
    return {path.relative_to(SRC) for path in found}


@pytest.mark.slow
def test_archive_and_wheel_install_and_run(tmp_path: Path) -> None:
    checkout, built = tmp_path / "checkout", tmp_path / "built"  # a copy: no build folder is left in this one
    shutil.copytree(SRC, checkout / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in CHECKOUT:
        shutil.copy(ROOT / name, checkout / name)
    built.mkdir()
    name = call(sys.executable, "-c", BUILD, built, cwd=checkout).splitlines()[-1]
    with tarfile.open(built / name) as archive:
        inside = {Path(*Path(item).parts[1:]) for item in archive.getnames()}
    assert {Path("src") / path for path in files_of_the_package()} | {Path(x) for x in CHECKOUT} <= inside
    wheel_options = ("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", built)
    call(*PIP, "wheel", "-q", *wheel_options, built / name, cwd=tmp_path)
    [wheel] = built.glob("amt-*.whl")

    fresh = tmp_path / "fresh é"
    call(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=tmp_path)
    python = fresh / "bin" / "python"
    [packages] = fresh.glob("lib/python*/site-packages")
    borrowed = "\n".join(path for path in site.getsitepackages() if path != str(packages))
    (packages / "borrowed.pth").write_text(borrowed, encoding="utf-8")  # its own .pth files are not read
    call(*PIP, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    there = {path.relative_to(packages / "amt") for path in (packages / "amt").rglob("*") if path.is_file()}
    assert files_of_the_package() <= there

    home, number, prefix = json.loads(call(python, "-c", IMPORT_ALL, cwd=tmp_path).splitlines()[-1])
    assert Path(home).parent == packages / "amt"
    assert Path(prefix) == fresh
    assert number > 200
    for script in PROJECT["project"]["scripts"]:
        assert "usage" in call(fresh / "bin" / script, "--help", cwd=tmp_path).lower(), script
    assert "--max-steps" in call(python, "-m", "amt.train", "--help", cwd=tmp_path)
    said = call(fresh / "bin" / "amt-train", "exp", "--print-identity", cwd=tmp_path)
    assert str(tmp_path / "logs" / "ymt3" / "exp") in said, "an installed wheel works where one stands"
    write_songs(tmp_path / "data" / "songs")
    line = ["exp", "-d", "songs", "--recipe", "quickstart", "-bsz", "2", "2", "-it", "2", "--dry-run"]
    more = {"AMT_DATA_HOME": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    said = call(fresh / "bin" / "amt-train", *line, cwd=tmp_path, **more)
    step = re.search(r"dry run: everything is built, step 1 took .*, at most ([0-9.]+) GiB of memory", said)
    assert step, said
    assert float(step[1]) < 1.8, "a small network trains in 2 GB"


def write_songs(folder: Path) -> None:
    """A store with one song of three seconds in each split."""
    notes = notes_to_array([Note(0.2, 0.9, 60, 100), Note(1.6, 2.5, 62, 100)])
    with StoreWriter(folder, folder.name) as writer:
        for split in ("train", "validation", "test"):
            sound = np.zeros((1, 48000), np.int16)
            writer.add_song(split, f"{split} song", sound, [[100]], ["voice"], notes, {})


def sources() -> list[Path]:
    folders = (SRC, ROOT / "tests", ROOT / "examples", ROOT / "benchmarks")
    return [path for folder in folders for path in folder.rglob("*.py") if "__pycache__" not in path.parts]


def test_newer_pythons_have_what_is_imported() -> None:
    for path in sources():
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape is an error some day
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 11))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module or "")
            assert not {name.partition(".")[0] for name in names} & REMOVED, path
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("utcnow", "utcfromtimestamp"), path


def test_versions_of_python_are_said_once_and_the_same() -> None:
    marks = [x.rpartition(" :: ")[2] for x in PROJECT["project"]["classifiers"] if "Python :: 3." in x]
    assert marks == ["3.11", "3.12", "3.13"]
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"python{mark}" in makefile for mark in marks)
    assert "(3, 11) <= sys.version_info < (3, 14)" in makefile
