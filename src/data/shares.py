"""How songs without a split of their own are dealt out, and how every split gets one."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..config.names import counted
from ..config.presets import list_presets
from .store import SongStore, StoreError

SPLITS = ("train", "validation", "test")


FACT = "dealt_out"
"""Key of ``store.json`` for the shares by which songs were dealt out."""


@dataclass(frozen=True)
class Shares:
    """How songs without a split of their own are dealt out."""

    validation: float = 0.1
    """Probability of a song to go to ``validation``."""
    test: float = 0.1
    """The same for ``test``."""
    seed: int | None = None
    """Another seed, another split; None: see :meth:`for_songs`."""

    def __post_init__(self) -> None:
        if self.validation < 0 or self.test < 0 or self.validation + self.test >= 1:
            raise ValueError(
                f"validation share {self.validation} and test share {self.test} must be 0 or more and leave "
                "something for training"
            )

    @property
    def wanted(self) -> list[str]:
        """The splits that are to have songs."""
        shares = (1.0, self.validation, self.test)
        return [split for split, share in zip(SPLITS, shares, strict=True) if share > 0]

    def for_songs(self, names: Sequence[str], before: int | None = None) -> Shares:
        """The same with a seed, which these songs choose where none was given.

        It is the first that gives every wanted split a song, ``before`` (of the store that is replaced) and
        then 0, 1, ...; where none does, ``before`` or 0.
        """
        if self.seed is not None:
            return self
        first = 0 if before is None else before
        found = first if _fills(names, replace(self, seed=first)) else _filling_seed(names, self)
        return replace(self, seed=first if found is None else found)

    def split_of(self, name: str) -> str:
        """Split of a song; a hash of its name decides. Without a seed as with 0."""
        return split_of(name, self.seed or 0, self.validation, self.test)


def split_of(name: str, seed: int, validation_share: float, test_share: float) -> str:
    """Split of a song: a stable hash of its name as a number in [0, 1), against the shares."""
    digest = hashlib.sha256(f"{seed}\n{unicodedata.normalize('NFC', name)}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < test_share:
        return "test"
    return "validation" if place < test_share + validation_share else "train"


def _fills(names: Sequence[str], shares: Shares) -> bool:
    """Whether every wanted split gets one of the songs."""
    return set(shares.wanted) <= {shares.split_of(name) for name in names}


def _filling_seed(names: Sequence[str], shares: Shares) -> int | None:
    """The smallest seed up to 1000 that puts a song into each wanted split; None without one."""
    return next((seed for seed in range(1001) if _fills(names, replace(shares, seed=seed))), None)


def filling_flags(names: Sequence[str], shares: Shares) -> str:
    """Flags of ``amt-prepare`` with which every wanted split has a song; "" when there are none.

    Songs that are too few for a test split go without it.
    """
    further = ""
    if len(names) < len(shares.wanted) and shares.test > 0:
        shares, further = replace(shares, test=0.0), " --test-share 0"
    if len(names) < len(shares.wanted):
        return ""
    seed = _filling_seed(names, shares)
    return "" if seed is None else f"--overwrite{further} --seed {seed}"


def filling_way_out(names: Sequence[str], shares: Shares, what: str = "") -> str:
    """What to do so that songs of one's own fill every wanted split: the part of a sentence.

    Args:
        names: by which the songs are dealt out.
        shares: of the splits.
        what: the data set that is prepared again, where the reader may not know.
    """
    again = f"prepare {what} again" if what else "prepare again"
    flags = filling_flags(names, shares)
    if len(names) < len(shares.wanted):
        add = f"{counted(len(names), 'song')} cannot fill {len(shares.wanted)} splits: add songs"
        return f"{add}, or {again} with {flags}" if flags else add
    if flags:
        return f"{again} with {flags}: then every split has a song"
    return f"{again} with --overwrite and larger shares (--validation-share, --test-share)"


def store_way_out(store: SongStore) -> str:
    """What to do about an empty split of a store of one's own; "" for one of a preset."""
    if store.name in list_presets():
        return ""
    shares, names = dealt_shares(store), dealt_names(store)
    if "validation" not in shares.wanted:
        if len(names) > 1:
            return f"prepare {store.name} again with --overwrite and a --validation-share above 0"
        shares = Shares(test=0.0)  # another share does not help a single song
    way_out = filling_way_out(names, shares, store.name)
    return way_out if FACT in store.header else f"{way_out}; a manifest may say the split of each song"


def dealt_shares(store: SongStore) -> Shares:
    """The shares by which the songs of a store were dealt out; the default ones where it does not say."""
    try:
        return Shares(**store.header[FACT])
    except (KeyError, TypeError, ValueError):  # an older store, or a file that was changed by hand
        return Shares()


def seed_before(path: Path) -> int | None:
    """The seed by which the songs of the store at ``path`` were dealt out; None where there is none."""
    try:
        return dealt_shares(SongStore.open(path)).seed
    except StoreError:
        return None


def dealt_names(store: SongStore) -> list[str]:
    """The names by which the songs of a store of one's own were dealt out, as far as it knows them."""
    names = []
    for split in store.splits:
        for number in range(len(store.index(split))):
            song = store.song(split, number)
            source = str(song.meta.get("source", ""))
            names.append(source if source.replace("/", "__") == song.song_id else song.song_id)
    return names
