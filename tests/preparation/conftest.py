"""Sound and MIDI files for made-up data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.notes import Note, write_midi


class Files:
    """Writes files below a folder, with the folders they need."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def text(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def sound(
        self, name: str, *, seconds: float = 1.5, rate: int = 22050, pitch: float = 69, level: float = 0.25
    ) -> Path:
        """A sine."""
        time = np.arange(round(seconds * rate)) / rate
        return self.samples(name, level * np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * time), rate)

    def samples(self, name: str, audio: np.ndarray, rate: int) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, audio, rate)
        return path

    def midi(self, name: str, notes: Iterable[Note], names: dict[int, str] | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_midi(notes, path, track_names=names)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "raw data é")
