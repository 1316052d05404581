"""What is known of a song before it is read, and what it is afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.store_format import StemArray
from ..notes.note import NoteArray

SHARED_SPLIT = "songs"
"""Split that holds the songs that several splits share."""


@dataclass
class LoadedSong:
    """A song as the store takes it."""

    stems: StemArray
    """int16 (stems, samples)."""
    stem_programs: Sequence[Sequence[int]]
    stem_names: Sequence[str]
    notes: NoteArray
    meta: Mapping[str, Any]
    counts: Counter[str] = field(default_factory=Counter)
    """Small repairs, by what was done."""


@dataclass(frozen=True)
class SongPlan:
    """A song to be read, perhaps by another process: everything in it can be pickled."""

    song_id: str
    splits: tuple[str, ...]
    """All splits the song stands in."""
    load: Callable[[int], LoadedSong]
    """Reads the song at a sample rate; raises ``ValueError`` or ``OSError`` that names the file at fault."""
    files: tuple[Path, ...] = ()
    """What it is made of; each must be there."""


@dataclass(frozen=True)
class SplitPlan:
    """Which split owns each song, and which splits are views of them."""

    owners: Mapping[str, str]
    """Song to the split that holds it."""
    views: Mapping[str, Sequence[str]]
    """Split made of songs of other splits to its songs."""


def plan_splits(members: Mapping[str, Sequence[str]]) -> SplitPlan:
    """Each song is stored once: splits that share a song become views of the split ``songs``.

    Args:
        members: split to its songs, in order.
    """
    uses: Counter[str] = Counter(song for songs in members.values() for song in set(songs))
    views = {split for split, songs in members.items() if any(uses[song] > 1 for song in songs)}
    owners: dict[str, str] = {}
    for split, songs in members.items():
        for song in songs:
            owners.setdefault(song, SHARED_SPLIT if split in views else split)
    return SplitPlan(owners, {split: list(dict.fromkeys(members[split])) for split in sorted(views)})
