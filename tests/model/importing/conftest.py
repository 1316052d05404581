"""The samples and the golden fill rule as fixtures."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

GOLDEN = Path(__file__).parents[2] / "golden" / "model"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"amt_tests_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    return load(Path(__file__).with_name("samples.py"))


@pytest.fixture(scope="session")
def fill() -> Callable[[str, tuple[int, ...]], Tensor | None]:
    """The golden fill rule: weights derived from published names."""
    rule = load(GOLDEN / "fill_rule.py")

    def filled(name: str, shape: tuple[int, ...]) -> Tensor | None:
        values = rule.filled(name, shape)
        return None if values is None else torch.from_numpy(values)

    return filled


@pytest.fixture(scope="session")
def golden_sound() -> Callable[[int, int, int], Tensor]:
    """The audio of the golden files: (examples, samples, seed) → (B, 1, S)."""
    rule = load(GOLDEN / "fill_rule.py")
    return lambda examples, length, seed: torch.from_numpy(rule.audio(examples, length, seed))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
