"""Python files outside of any package as modules: scenarios, rules of golden files, examples."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parents[1]


def load_script(path: Path) -> ModuleType:
    """The file as a module of its own, without an entry in ``sys.modules``."""
    spec = importlib.util.spec_from_file_location(f"amt_tests_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_tiny() -> ModuleType:
    """The tiny run of the training tests."""
    return load_script(TESTS / "training" / "tiny.py")


def load_samples() -> ModuleType:
    """Published key lists, and files made from them."""
    return load_script(TESTS / "model" / "importing" / "samples.py")
