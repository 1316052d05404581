"""How songs without a split of their own are dealt out, and how every split gets one."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..config.presets import list_presets
from .store import SongStore

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Shares:
    """How songs without a split of their own are dealt out."""

    validation: float = 0.1
    """Probability of a song to go to ``validation``."""
    test: float = 0.1
    """The same for ``test``."""
    seed: int = 0
    """Another seed, another split."""

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

    def split_of(self, name: str) -> str:
        """Split of a song; a hash of its name decides."""
        return split_of(name, self.seed, self.validation, self.test)


def split_of(name: str, seed: int, validation_share: float, test_share: float) -> str:
    """Split of a song: a stable hash of its name as a number in [0, 1), against the shares."""
    digest = hashlib.sha256(f"{seed}\n{unicodedata.normalize('NFC', name)}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < test_share:
        return "test"
    return "validation" if place < test_share + validation_share else "train"


def seed_for(names: Sequence[str], shares: Shares) -> int | None:
    """The smallest seed up to 1000 that puts a song into each wanted split; None without one."""
    for seed in range(1001):
        dealt = replace(shares, seed=seed)
        if set(shares.wanted) <= {dealt.split_of(name) for name in names}:
            return seed
    return None


def filling_flags(names: Sequence[str], shares: Shares) -> str:
    """Flags of ``amt-prepare`` with which every wanted split has a song; "" when there are none.

    Songs that are too few for a test split go without it.
    """
    further = ""
    if len(names) < len(shares.wanted) and shares.test > 0:
        shares, further = replace(shares, test=0.0), " --test-share 0"
    if len(names) < len(shares.wanted):
        return ""
    seed = seed_for(names, shares)
    return "" if seed is None else f"--overwrite{further} --seed {seed}"


def validation_way_out(stores: Sequence[SongStore]) -> str:
    """How the first store of one's own, prepared again, gets songs for validation; "" when none can."""
    for store in stores:
        if store.name in list_presets():
            continue
        if flags := filling_flags(dealt_names(store), Shares()):
            return (
                f"prepare {store.name} again with {flags} and the default shares, or say in its manifest "
                "which songs are for validation"
            )
    return ""


def dealt_names(store: SongStore) -> list[str]:
    """The names by which the songs of a store of one's own were dealt out, as far as it knows them."""
    names = []
    for split in store.splits:
        for number in range(len(store.index(split))):
            song = store.song(split, number)
            source = str(song.meta.get("source", ""))
            names.append(source if source.replace("/", "__") == song.song_id else song.song_id)
    return names
