"""From samples to a batch: label lengths from one list of buckets, notes in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..notes.note import NOTE_DTYPE, NoteArray, note_programs

FIRST_BUCKETS = (32, 48, 64)
"""Shortest label lengths; from the last one on they double. The small ones are for melodies in short
windows, where padding to 64 would cost a third of the decoder's time."""


def label_buckets(max_length: int) -> tuple[int, ...]:
    """The label lengths of a run: 32, 48, 64, 128, 256, ... below ``max_length``, then ``max_length``."""
    lengths = list(FIRST_BUCKETS)
    while lengths[-1] < max_length:
        lengths.append(2 * lengths[-1])
    return (*(length for length in lengths if length < max_length), max_length)


def trim_to_bucket(labels: npt.NDArray[np.int64], pad_id: int) -> npt.NDArray[np.int64]:
    """Labels (..., N) cut to the shortest bucket that holds their longest row; the cut part is padding."""
    filled = (labels != pad_id).reshape(-1, labels.shape[-1]).any(axis=0)
    longest = int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else 0
    length = next(item for item in label_buckets(labels.shape[-1]) if item >= longest)
    return labels[..., :length]


def notes_tensor(notes: Sequence[NoteArray], window_seconds: float) -> Tensor:
    """The notes that sound in each window, (M, 6) float32, columns ``NOTE_COLUMNS``.

    Args:
        notes: one array per sample, seconds from the start of its window.
        window_seconds: length of the window.
    """
    rows = []
    for number, array in enumerate(notes):
        heard = array[sounding(array, 0.0, window_seconds)]
        row = np.empty((len(heard), 6), dtype=np.float32)
        row[:, 0] = number
        row[:, 1] = heard["onset"]
        row[:, 2] = heard["offset"]
        row[:, 3] = heard["pitch"]
        row[:, 4] = note_programs(heard)
        row[:, 5] = heard["is_drum"]
        rows.append(row)
    return torch.from_numpy(np.concatenate(rows) if rows else np.zeros((0, 6), dtype=np.float32))


def sounding(notes: NoteArray, begin: float, end: float) -> npt.NDArray[np.bool_]:
    """Mask of the notes heard from ``begin`` to ``end`` seconds. A drum note counts where it is struck."""
    onset = notes["onset"]
    heard: npt.NDArray[np.bool_] = (onset < end) & np.where(
        notes["is_drum"], onset >= begin, notes["offset"] > begin
    )
    return heard


def join_notes(arrays: Sequence[NoteArray]) -> NoteArray:
    """One array sorted by onset (stable)."""
    if not arrays:
        return np.zeros(0, dtype=NOTE_DTYPE)
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return joined[np.argsort(joined["onset"], kind="stable")]
