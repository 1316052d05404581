"""What the data sets of a run hold, noted in its checkpoints: a resumed run says when they have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from ..config.names import counted
from .scored import ScoredSet
from .segments import TrainingSet

Contents = dict[str, dict[str, int | str]]
"""Number of songs and hash of each data set, by its name and what it is for."""


def contents_of(training: Sequence[TrainingSet], validation: Sequence[ScoredSet]) -> Contents:
    """The contents of a run's data sets by the hashes in ``store.json``; reads no sound."""
    found: Contents = {}
    for item in training:
        songs = sum(len(item.store.index(split)) for split in item.splits)
        hashes = "".join(item.store.recorded_hash(split) for split in item.splits)
        found[f"{item.name} (training)"] = {"songs": songs, "hash": sha256(hashes.encode()).hexdigest()}
    for scored in validation:
        songs = len(scored.store.index(scored.split))
        found[f"{scored.name} (validation)"] = {
            "songs": songs,
            "hash": scored.store.recorded_hash(scored.split),
        }
    return found


def describe_changes(before: Mapping[str, Mapping[str, int | str]], now: Contents) -> str:
    """A sentence about data sets that are not what they were; empty where all are, or where nothing is known.

    Args:
        before: of the checkpoint; empty for one that does not say.
        now: of the stores as they are.
    """
    changed = []
    for name, old in before.items():
        new = now.get(name)
        if new is None or new["hash"] == old["hash"]:
            continue
        number = counted(int(old["songs"]), "song")
        same = new["songs"] == old["songs"]
        changed.append(
            f"{name}: {number}, other sound or notes" if same else f"{name}: {number}, now {new['songs']}"
        )
    if not changed:
        return ""
    return (
        f"data: prepared again since this run was saved ({'; '.join(changed)}): it goes on with what is "
        "there now, and scores from before do not compare; another name starts a new run"
    )
