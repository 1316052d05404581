"""What libraries say comes above a live bar and not into it."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from rich.console import Console
from rich.progress import Progress

from amt.training.speech import quiet_libraries


def test_the_libraries_write_to_standard_error_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live bar stands in for standard error; a handler that kept the old one would write into the bar."""
    logger = logging.getLogger("pytorch_lightning")
    handler = logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    try:
        quiet_libraries(True)
        terminal = io.StringIO()
        monkeypatch.setattr(sys, "stderr", terminal)
        console = Console(file=terminal, force_terminal=True, width=60)
        with Progress(console=console, auto_refresh=False) as bar:
            bar.add_task("train", total=1)
            bar.refresh()
            logger.warning("said meanwhile")
        line = next(text for text in terminal.getvalue().splitlines() if "said meanwhile" in text)
        assert "train" not in line
    finally:
        logger.removeHandler(handler)
