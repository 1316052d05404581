"""The tiny run of the training tests, and its store."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny():
    path = Path(__file__).parents[1] / "training" / "tiny.py"
    spec = importlib.util.spec_from_file_location("amt_tests_tiny", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sines(tiny, tmp_path_factory):
    """Data folder with the store ``sines``."""
    return tiny.make_store(tmp_path_factory.mktemp("data"))
