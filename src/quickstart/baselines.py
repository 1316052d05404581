"""What a score means: the score of notes drawn at random."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..notes.note import Note, NoteArray, array_to_notes, notes_to_array


def random_notes_like(
    reference: Iterable[Note] | NoteArray, rng: np.random.Generator, duration: float | None = None
) -> list[Note]:
    """Random notes of the reference's density: what a transcriber that hears nothing could write.

    As many notes as the reference; onsets uniform over the song, pitches uniform over the reference's
    range, lengths and instruments drawn from the reference's own.

    Args:
        reference: the notes to imitate.
        rng: source of the draws; the same generator state gives the same notes.
        duration: length of the song in seconds; default to the end of the last note.
    """
    given = notes_to_array(reference)
    count = len(given)
    if not count:
        return []
    end = float(given["offset"].max()) if duration is None else duration
    notes = given[rng.integers(0, count, size=count)].copy()
    length = np.maximum(notes["offset"] - notes["onset"], 0.01)
    notes["onset"] = np.sort(rng.uniform(0.0, max(end, 0.01), size=count))
    notes["offset"] = notes["onset"] + length
    pitched = given["pitch"][~given["is_drum"]]
    if len(pitched):
        melodic = ~notes["is_drum"]
        drawn = rng.integers(int(pitched.min()), int(pitched.max()) + 1, size=count)
        notes["pitch"][melodic] = drawn[melodic]
    return array_to_notes(notes)
