"""What data sets without a published layout share: audio files beside MIDI files of the same name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...data.shares import SPLITS, split_of
from ..generic import Pair, find_pairs
from ..write import PreparationReport
from .corpus import Found, whole
from .labels import MidiLabels


def pairs_in(source: Path, found: Found, alone: tuple[str, ...] = ()) -> list[Pair]:
    """All pairs below a folder; what has no partner is mentioned, but for names that end in ``alone``."""
    report = PreparationReport()
    pairs = find_pairs(source, report)
    found.remarks += report.remarks
    unpaired = [name for name in report.unpaired if not Path(name).stem.endswith(alone)]
    if unpaired:
        found.remarks.append(
            f"{len(unpaired)} audio and MIDI files have no partner of their name, such as {unpaired[0]}"
        )
    return pairs


def split_of_pair(pair: Pair, aliases: Iterable[tuple[str, str]] = (("valid", "validation"),)) -> str:
    """The split that a folder above the pair is named after; without one a hash decides, a tenth each."""
    names = {**{split: split for split in SPLITS}, **dict(aliases)}
    for part in pair.name.split("/")[:-1]:
        if part.lower() in names:
            return names[part.lower()]
    return split_of(pair.name, 0, 0.1, 0.1)


def id_of(pair: Pair) -> str:
    """The folder name of a pair's song."""
    return pair.name.replace("/", "__").strip()


def find_mixtures(source: Path, title: str, licence: str) -> Found:
    """All pairs as mixtures whose MIDI files say the programs."""
    found = Found()
    for pair in pairs_in(source, found):
        meta = {"source": f"{title}/{pair.name}", "licence": licence}
        files = [pair.audio, pair.midi]
        stems = [whole("mix", pair.audio)]
        found.add(id_of(pair), (split_of_pair(pair),), stems, MidiLabels(pair.midi), files, **meta)
    return found
