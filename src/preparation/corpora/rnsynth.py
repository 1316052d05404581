"""Mixtures of random notes of NSynth (Engel et al. 2017): audio beside MIDI of the same name.

The MIDI files say the programs. Folders named ``train``, ``validation`` (``valid``, as NSynth has it) and
``test`` are the splits; without them a hash of the names decides.
"""

from __future__ import annotations

from pathlib import Path

from ...data.shares import SPLITS
from .corpus import Corpus, Found
from .pairs import find_mixtures

LICENCE = "notes CC BY 4.0"


def find(source: Path) -> Found:
    """All pairs."""
    return find_mixtures(source, "random NSynth", LICENCE)


CORPUS = Corpus("rnsynth", "random NSynth", LICENCE, find, splits=SPLITS)
