"""What the readers and the writer of a store agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..notes.note import DRUM_PROGRAM, NoteArray, note_programs
from .patience import unreadable

FORMAT = "amt-store"
VERSION = 2
"""Latest version of the folder's layout. 2 adds FLAC stems and splits that share songs; a store that has
neither is written as 1."""

StemArray = npt.NDArray[np.int16]
"""(stems, samples) int16."""

INDEX_FIELDS = (
    ("num_samples", "<i8"),
    ("num_stems", "<i4"),
    ("num_notes", "<i4"),
    ("octave_unknown", "?"),
)
"""Fields of an index row after ``song_id``."""

SONG_HASHES = "songs"
"""``hash_of`` of a split whose sha256 is taken over the hashes of its songs, as a view's always is."""


class StoreError(ValueError):
    """A store that is missing, broken or of another version."""


def shown_problems(problems: Sequence[str], most: int = 50) -> list[str]:
    """The first problems, and how many more there are."""
    shown = list(problems[:most])
    if len(problems) > most:
        shown.append(f"and {len(problems) - most} more")
    return shown


def missing_file(path: Path) -> StoreError:
    """What is said of a file of a store that is not there: preparing again takes the old ones away."""
    return StoreError(
        f"{path}: the file is missing; if the data set was prepared again meanwhile, start again, else "
        "prepare the store again"
    )


def read_array(path: Path, mmap_mode: Literal["r"] | None = None) -> npt.NDArray[Any]:
    """The array in a file of a store.

    Raises:
        StoreError: the file is missing or damaged; the message names it.
        UnreadableFile: the file system does not give it.
    """
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode, allow_pickle=False)
    except FileNotFoundError:
        raise missing_file(path) from None
    except Exception as error:  # a damaged header can lead to any
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(error, path) from None
        detail = " ".join(str(error).split())[:200]
        raise StoreError(f"{path}: cannot be read as an array ({detail})") from None
    return array


def to_int16(audio: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Samples in [-1, 1] as the store holds them; what lies beyond is clipped."""
    samples: npt.NDArray[np.int16] = np.clip(np.rint(audio * 32768.0), -32768, 32767).astype(np.int16)
    return samples


def count_programs(notes: NoteArray) -> Counter[int]:
    """How many notes there are of each program (128: drums)."""
    return Counter(note_programs(notes).tolist())


def only_pitched_program(counts: Mapping[int, int]) -> int | None:
    """The program of all pitched notes, where they have but one: then it may be that nobody said it."""
    pitched = [program for program, count in counts.items() if count and program != DRUM_PROGRAM]
    return pitched[0] if len(pitched) == 1 else None


def update_digest(digest: Any, stems: StemArray, notes: NoteArray) -> None:
    """Feed a song's samples and notes to a hash."""
    digest.update(np.ascontiguousarray(stems).view(np.uint8).data)
    digest.update(notes.tobytes())
