"""Notes made fit for scoring, so that a broken one never ends a run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..notes.note import Note, NoteArray, notes_to_array

MIN_LENGTH = 0.01
"""Length in seconds that a note without one gets before scoring."""
LATEST_TIME = 1e6
"""Seconds beyond which a time is damage; the matching is exact up to here."""

Notes = Iterable[Note] | NoteArray


def repair_notes(notes: Notes) -> NoteArray:
    """Notes that can be scored: sane times, onset not negative, offset after the onset.

    A note with a time that is not finite or beyond 10^6 s, or a pitch outside 0 to 127, is dropped; a
    negative onset becomes 0; a note that ends before or where it starts gets ``MIN_LENGTH`` seconds.
    Order is kept.
    """
    given = notes_to_array(notes)
    ok = (np.abs(given["onset"]) <= LATEST_TIME) & (np.abs(given["offset"]) <= LATEST_TIME)
    ok &= (given["pitch"] >= 0) & (given["pitch"] <= 127)
    array: NoteArray = given[ok]
    array["onset"] = np.maximum(array["onset"], 0.0)
    bad = array["offset"] <= array["onset"]
    array["offset"][bad] = array["onset"][bad] + MIN_LENGTH
    return array
