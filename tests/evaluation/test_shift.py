"""Label shift: the scan finds what was done to the labels."""

import math

import numpy as np
import pytest

from amt.evaluation import NoteScore, best_shift, note_prf, scan_shifts
from amt.notes.note import Note


def song(seed: int = 0, program: int = 33) -> list[Note]:
    rng = np.random.default_rng(seed)
    onset = np.cumsum(rng.uniform(0.2, 0.5, 60))
    return [Note(t, t + 0.15, int(p), program) for t, p in zip(onset, rng.integers(30, 50, 60), strict=True)]


def moved(notes: list[Note], semitones: int, seconds: float) -> list[Note]:
    return [
        n._replace(onset=n.onset + seconds, offset=n.offset + seconds, pitch=n.pitch + semitones)
        for n in notes
    ]


def score_at(
    labels: list[Note], found: list[Note], semitones: int = 0, seconds: float = 0.0, with_offset: bool = False
) -> NoteScore:
    """Score at a single shift."""
    (one,) = scan_shifts(labels, found, semitones=[semitones], seconds=[seconds], with_offset=with_offset)
    return one.score


@pytest.mark.parametrize(("semitones", "seconds"), [(0, 0.0), (12, 0.0), (-12, 0.08), (0, -0.09)])
def test_finds_the_shift(semitones: int, seconds: float) -> None:
    labels = song()
    found = moved(labels, semitones, seconds)
    best = best_shift(scan_shifts(labels, found, seconds=[-0.09, -0.04, 0.0, 0.04, 0.08]))
    assert best.semitones == semitones
    assert abs(best.seconds - seconds) <= 0.05
    assert best.score.f == 1.0
    assert score_at(labels, found, semitones=semitones, seconds=seconds, with_offset=True).f == 1.0


def test_equal_scores_prefer_the_smallest_shift() -> None:
    labels = song()
    best = best_shift(scan_shifts(labels, labels))
    assert (best.semitones, best.seconds, best.score.f) == (0, 0.0, 1.0)
    nothing = best_shift(scan_shifts([], labels))
    assert (nothing.semitones, nothing.seconds) == (0, 0.0)
    assert math.isnan(nothing.score.f)


def test_scan_is_the_score_of_each_shift() -> None:
    labels, found = song(), moved(song(), 12, 0.03)[:40] + song(1)[:30]
    scanned = scan_shifts(labels, found, semitones=(0, 12), seconds=(0.0, 0.03))
    assert [(s.semitones, s.seconds) for s in scanned] == [(0, 0.0), (0, 0.03), (12, 0.0), (12, 0.03)]
    for item in scanned:
        assert item.score == note_prf(moved(labels, item.semitones, item.seconds), found)
    assert scanned[0].score == note_prf(labels, found)


def test_no_note_is_lost_beyond_the_range() -> None:
    labels = [Note(0.0, 1.0, 3, 33), Note(1.0, 2.0, 126, 33)]
    for semitones, seconds in ((-12, 0.0), (12, 0.0), (0, -5.0)):
        score = score_at(labels, labels, semitones=semitones, seconds=seconds)
        assert (score.num_matched, score.num_reference) == (0, 2)


def test_drums_move_in_time_only() -> None:
    drums = [Note(t, t + 0.01, 36, 128, True) for t in np.arange(0.0, 3.0, 0.3)]
    late = moved(drums, 0, 0.1)
    assert score_at(drums, late).num_matched == 0
    assert score_at(drums, late, semitones=12, seconds=0.1).f == 1.0
    pitched = [n._replace(is_drum=False, program=0) for n in drums]
    assert score_at(drums, pitched).num_matched == 0


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least one"):
        best_shift(scan_shifts([], [], seconds=()))
    with pytest.raises(ValueError, match="number of seconds"):
        scan_shifts([], [], seconds=[0.0, math.inf])
