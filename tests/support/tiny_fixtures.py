"""The tiny run of the training tests and its store, for the ``conftest.py`` of each room that trains."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from script_loading import load_tiny


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    return load_tiny()


@pytest.fixture(scope="session")
def sines(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder with the store ``sines``."""
    home: Path = tiny.make_store(tmp_path_factory.mktemp("data"))
    return home
