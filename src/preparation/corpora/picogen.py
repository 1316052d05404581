"""Songs that PiCoGen (Tan et al. 2024) made: audio beside MIDI of the same name.

The MIDI files say the programs. Folders named ``train``, ``validation`` (``valid``) and ``test`` are the
splits; without them a hash of the names decides.
"""

from __future__ import annotations

from pathlib import Path

from ...data.shares import SPLITS
from .corpus import Corpus, Found
from .pairs import find_mixtures

LICENCE = "not public"


def find(source: Path) -> Found:
    """All pairs."""
    return find_mixtures(source, "PiCoGen", LICENCE)


CORPUS = Corpus("picogen", "PiCoGen", LICENCE, find, splits=SPLITS)
