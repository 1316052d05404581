"""Small stores of sine tones, whose pitch can be measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from amt.data.store import SongStore, StoreWriter
from amt.notes.note import NOTE_DTYPE, NoteArray

RATE = 16000


def tone_notes(
    seed: int, seconds: float, program: int, low: int, high: int, *, drum: bool = False
) -> NoteArray:
    """Notes one after another without overlap."""
    rng = np.random.default_rng(seed)
    rows = []
    time = 0.05
    while time < seconds - 0.6:
        length = float(rng.uniform(0.15, 0.5))
        offset = time + (0.01 if drum else length)
        rows.append((time, offset, int(rng.integers(low, high)), program, 100, drum))
        time += length + float(rng.uniform(0.05, 0.2))
    return np.array(rows, dtype=NOTE_DTYPE)


def render(notes: NoteArray, num_samples: int, level: float = 0.2) -> np.ndarray:
    """int16 samples of the notes: sines, or clicks for drums."""
    audio = np.zeros(num_samples)
    for note in notes:
        begin = round(float(note["onset"]) * RATE)
        end = min(round(float(note["offset"]) * RATE), num_samples)
        if note["is_drum"]:
            audio[begin : begin + 40] += 0.5
        else:
            time = np.arange(end - begin) / RATE
            audio[begin:end] += level * np.sin(2 * np.pi * 440 * 2 ** ((int(note["pitch"]) - 69) / 12) * time)
    return (audio * 32767).astype(np.int16)


def add_tone_song(
    writer: StoreWriter,
    split: str,
    song_id: str,
    seed: int,
    seconds: float,
    programs: list[int],
    **meta: object,
) -> None:
    """A song with one stem per program (128: drums, -1: noise without notes)."""
    size = int(seconds * RATE)
    stems, notes = [], []
    for number, program in enumerate(programs):
        if program < 0:
            noise = np.random.default_rng(seed).normal(0, 300, size)
            stems.append(noise.astype(np.int16))
            continue
        own = tone_notes(
            seed * 100 + number, seconds, program if program < 128 else 0, 50, 80, drum=program == 128
        )
        stems.append(render(own, size))
        notes.append(own)
    writer.add_song(
        split,
        song_id,
        np.stack(stems),
        [[p] if p >= 0 else [] for p in programs],
        [f"stem{p}" for p in programs],
        np.concatenate(notes) if notes else np.zeros(0, NOTE_DTYPE),
        meta,
    )


@pytest.fixture(scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two stores: ``tones`` (five songs of 12 s and one of 0.5 s) and ``others``."""
    home = tmp_path_factory.mktemp("data home é")
    with StoreWriter(home / "tones", "tones") as writer:
        for i in range(5):
            add_tone_song(writer, "train", f"song{i}", i, 12.0, [100, 0, 33, 128])
        add_tone_song(writer, "train", "short", 9, 0.5, [100])
        for i in range(3):
            add_tone_song(writer, "validation", f"val{i}", 20 + i, 3.0, [100, 0, 128])
        add_tone_song(writer, "test", "test0", 30, 3.2, [100, 0, 128])
    with StoreWriter(home / "others", "others") as writer:
        for i in range(3):
            add_tone_song(writer, "train", f"other{i}", 40 + i, 8.0, [40, 73, 128, -1])
        add_tone_song(writer, "validation", "val0", 50, 2.0, [40, 73])
    return home


@pytest.fixture(scope="session")
def tones(data_home: Path) -> SongStore:
    """The store ``tones``."""
    return SongStore.open(data_home / "tones")


StoreMaker = Callable[..., SongStore]


@pytest.fixture
def make_store(tmp_path: Path) -> StoreMaker:
    """``make_store(programs, seconds=..., songs=..., **meta)``: a store of its own, split ``train``."""

    def make(
        programs: list[int], *, seconds: float = 6.0, songs: int = 1, name: str = "own", **meta: object
    ) -> SongStore:
        with StoreWriter(tmp_path / name, name) as writer:
            for i in range(songs):
                add_tone_song(writer, "train", f"s{i}", 70 + i, seconds, programs, **meta)
        return SongStore.open(tmp_path / name)

    return make
