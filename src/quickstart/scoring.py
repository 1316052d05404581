"""Held-out scores of the sung melody on a split of a store."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.store import Song, SongStore
from ..evaluation import bootstrap_interval, note_prf
from ..inference.files import atomic_path
from ..notes.note import CHORUS_PROGRAM, SINGING_PROGRAM, Note, array_to_notes
from ..reports.result import without_nan
from .baselines import random_notes_like

if TYPE_CHECKING:
    from ..inference.transcriber import SongTranscriber

VOICE_PROGRAMS = (SINGING_PROGRAM, CHORUS_PROGRAM)


@dataclass(frozen=True)
class SongScore:
    """Voice scores of one song; NaN where the reference has no voice."""

    song_id: str
    onset_f: float
    offset_f: float
    precision: float
    recall: float
    num_notes: int
    """Reference notes of the voice."""
    num_estimate: int


@dataclass(frozen=True)
class SplitScore:
    """Voice scores of a split: means over its songs (onset within 50 ms, pitch within 50 cents)."""

    split: str
    onset_f: float
    offset_f: float
    """Offset within max(50 ms, 20 % of the note) as well."""
    precision: float
    recall: float
    interval: tuple[float, float]
    """95 % bootstrap interval of ``onset_f`` over songs."""
    num_songs: int
    """Songs with a voice."""
    num_notes: int
    """Reference notes of the voice."""
    songs: tuple[SongScore, ...]


def voice_notes(notes: Sequence[Note]) -> list[Note]:
    """The notes of singing voices."""
    return [note for note in notes if note.program in VOICE_PROGRAMS and not note.is_drum]


def score_split(
    transcriber: SongTranscriber,
    store: SongStore,
    split: str,
    progress: Callable[[int, int], None] | None = None,
) -> SplitScore:
    """Transcribe every mix of a split and score its voice.

    Args:
        transcriber: the model.
        store: an open store, for example that of ``amt-prepare quickstart``.
        split: one of its splits, such as ``test_standard``.
        progress: called with the songs done and the songs in all.
    """

    def predict(song: Song) -> list[Note]:
        return transcriber.transcribe(song.mix(), song.sample_rate).notes

    return score_predictions(predict, store, split, progress)


def score_random(store: SongStore, split: str, seed: int = 0) -> SplitScore:
    """The score of random notes of equal density, see :func:`~.baselines.random_notes_like`."""
    rng = np.random.default_rng(seed)

    def predict(song: Song) -> list[Note]:
        voice = voice_notes(array_to_notes(song.notes))
        return random_notes_like(voice, rng, song.num_samples / song.sample_rate)

    return score_predictions(predict, store, split)


def score_predictions(
    predict: Callable[[Song], Sequence[Note]],
    store: SongStore,
    split: str,
    progress: Callable[[int, int], None] | None = None,
) -> SplitScore:
    """Score any function from a song to notes on the voice of every song of a split."""
    total = store.splits.get(split, 0)
    songs: list[SongScore] = []
    for i in range(len(store.index(split))):
        song = store.song(split, i)
        songs.append(score_song(song.song_id, array_to_notes(song.notes), predict(song)))
        if progress is not None:
            progress(i + 1, total)
    return summarise(split, songs)


def score_song(song_id: str, reference: Sequence[Note], estimate: Sequence[Note]) -> SongScore:
    """Scores of the voice of one song."""
    ref, est = voice_notes(reference), voice_notes(estimate)
    onset, offset = note_prf(ref, est), note_prf(ref, est, with_offset=True)
    return SongScore(song_id, onset.f, offset.f, onset.precision, onset.recall, len(ref), len(est))


def summarise(split: str, songs: Sequence[SongScore]) -> SplitScore:
    """Means over songs; a song without voice is left out, a precision of nothing counts as 0."""
    counted = [song for song in songs if song.num_notes]

    def mean(name: str) -> float:
        values = [getattr(song, name) for song in counted]
        return float(np.mean([0.0 if math.isnan(v) else v for v in values])) if values else float("nan")

    return SplitScore(
        split=split,
        onset_f=mean("onset_f"),
        offset_f=mean("offset_f"),
        precision=mean("precision"),
        recall=mean("recall"),
        interval=bootstrap_interval(song.onset_f for song in counted),
        num_songs=len(counted),
        num_notes=sum(song.num_notes for song in counted),
        songs=tuple(songs),
    )


def write_scores(
    path: str | Path,
    scores: dict[str, dict[str, SplitScore]],
    facts: dict[str, Any] | None = None,
) -> None:
    """Write scores (system, then split) and further plain facts as strict JSON; NaN becomes null."""
    plain = {
        "data": "synthetic",
        "measure": "voice onset F1, 50 ms, 50 cents, mean over songs",
        **(facts or {}),
        "scores": {
            system: {split: asdict(score) for split, score in splits.items()}
            for system, splits in scores.items()
        },
    }
    with atomic_path(Path(path)) as temporary:
        text = json.dumps(without_nan(plain), indent=1, allow_nan=False, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")
