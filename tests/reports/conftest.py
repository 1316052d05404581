"""A small band as a store, and systems that hear it with known errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.config import Experiment
from amt.data.scored import ScoredSet
from amt.data.store import SongStore, StoreWriter
from amt.notes import Note, array_to_notes, notes_to_array
from amt.reports.systems import Estimate, ScoredSong, audio_hash
from amt.tokenizer import NoteTokenizer

SECONDS = 12.0


def band(seed: int) -> list[Note]:
    """Piano, bass and drums; onsets on a grid, so that a wrong note is far from every other."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.5, SECONDS - 1.0, 0.5)
    piano = [Note(float(t), float(t) + 0.4, int(rng.integers(60, 72)), 0) for t in times]
    bass = [Note(float(t), float(t) + 0.45, int(rng.integers(36, 46)), 33) for t in times[::2]]
    drums = [Note(float(t), float(t) + 0.01, int(rng.choice([36, 38])), 128, True) for t in times]
    return sorted([*piano, *bass, *drums])


def make_band(data_home: Path, songs: int = 4) -> SongStore:
    """A store named ``band``: split test, and one song in validation."""
    with StoreWriter(data_home / "band", "band") as writer:
        writer.add_split("empty")
        for number in range(songs + 1):
            rng = np.random.default_rng(100 + number)
            stems = rng.integers(-900, 900, (3, int(SECONDS * 16000))).astype(np.int16)
            split = "test" if number < songs else "validation"
            programs, names = [[0], [33], [128]], ["piano", "bass", "drums"]
            notes = notes_to_array(band(number))
            writer.add_song(split, f"song{number}", stems, programs, names, notes, {})
    return SongStore.open(data_home / "band")


@pytest.fixture(scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("data é")
    make_band(home)
    return home


@pytest.fixture(scope="session")
def band_set(data_home: Path) -> ScoredSet:
    return ScoredSet("band", SongStore.open(data_home / "band"), "test", "gm_plus", "gm")


class Hears:
    """Makes an estimate of the true notes."""

    name = "hears <all> & more"
    subtask: str | None = None

    def __init__(self, hear: Callable[[int, list[Note]], list[Note]]) -> None:
        self._hear = hear
        self.tokenizer = NoteTokenizer.from_experiment(Experiment(task="mc13_fsingle"))

    def facts(self) -> dict[str, Any]:
        return {"kind": "estimates"}

    def conventions(self) -> dict[str, Any]:
        return {"hears": "all"}

    def estimate(self, songs: Sequence[ScoredSong]) -> Iterator[tuple[int, Estimate | Exception]]:
        for number in reversed(range(len(songs))):
            item = songs[number]
            try:
                notes = self._hear(number, array_to_notes(item.song.notes))
            except ValueError as error:
                yield number, error
                continue
            yield number, Estimate(notes, audio_hash(item.song.mix()), 7, Counter({"order": number}))


def with_errors(number: int, notes: list[Note]) -> list[Note]:
    """Misses, octave errors, late notes, wrong ends and wrong instruments, more of them in later songs."""
    rng = np.random.default_rng(number)
    found = []
    for note in notes:
        draw = rng.random() / (0.4 + 0.3 * number)
        if note.is_drum:
            found.append(note._replace(pitch=40 if note.pitch == 38 else 35))
        elif draw < 0.1:
            continue
        elif draw < 0.2:
            found.append(note._replace(pitch=note.pitch + 12))
        elif draw < 0.3:
            found.append(note._replace(onset=note.onset + 0.08, offset=note.offset + 0.08))
        elif draw < 0.4:
            found.append(note._replace(program=33 - note.program))
        elif draw < 0.5:
            found.append(note._replace(onset=note.onset - 0.02, offset=note.offset - 0.18))
        else:
            found.append(note._replace(onset=note.onset + 0.013, offset=note.offset + 0.03))
    return sorted([*found, Note(0.1, 0.3, 84, 0)])


@pytest.fixture
def noisy() -> Hears:
    return Hears(with_errors)


@pytest.fixture
def make_system() -> type[Hears]:
    return Hears
