"""The tiny run of the training tests, and its store."""

import pytest

from script_loading import load_tiny


@pytest.fixture(scope="session")
def tiny():
    return load_tiny()


@pytest.fixture(scope="session")
def sines(tiny, tmp_path_factory):
    """Data folder with the store ``sines``."""
    return tiny.make_store(tmp_path_factory.mktemp("data"))
