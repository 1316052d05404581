"""Notes given window by window are those of decoding all windows at once."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from amt.audio import hop_samples, num_sliding_windows
from amt.inference.pitch_check import PitchEvidence, join_notes
from amt.inference.stitching import Stitcher
from amt.inference.windows import Windows
from amt.notes import Note
from amt.tokenizer import NoteTokenizer

SEGMENT = 8000


def random_notes(random: np.random.Generator, programs: list[int], count: int, seconds: float) -> list[Note]:
    notes = []
    for _ in range(count):
        onset = float(random.uniform(0, seconds))
        program = int(random.choice(programs))
        drum = program == 128
        length = 0.01 if drum else float(random.choice([0.02, 0.2, 0.5, 3.0]))
        notes.append(Note(onset, onset + length, int(random.integers(58, 63)), program, drum))
    return notes


def song_windows(num_samples: int, overlap: float) -> Windows:
    hop = hop_samples(SEGMENT, overlap)
    return Windows(num_samples, hop, num_sliding_windows(num_samples, SEGMENT, hop), iter(()))


def whole(
    tokenizer: NoteTokenizer, windows: Windows, ids: np.ndarray, ties: bool
) -> tuple[list[Note], Counter[str]]:
    decoded = tokenizer.decode(
        ids,
        windows.starts(),
        seams=windows.seams(SEGMENT) if windows.hop < SEGMENT else None,
        start_from_ties=ties,
    )
    end = windows.length / 16000
    notes = sorted(
        note if note.is_drum else note._replace(offset=min(note.offset, end))
        for note in decoded.notes
        if note.onset < end
    )
    return notes, decoded.errors


@pytest.mark.parametrize("task", ["mc13_fsingle", "mt3_full_plus", "mc13_full_plus_256"])
@pytest.mark.parametrize("overlap", [0.0, 0.05, 0.5, 0.8])
@pytest.mark.parametrize("damage", [0.0, 0.03])
def test_pieces_equal_the_whole(task: str, overlap: float, damage: float) -> None:
    """Also for damaged tokens, of which channels say different things about one instrument."""
    random = np.random.default_rng([len(task), int(overlap * 100), int(damage * 100)])
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT, max_length=256)
    for trial in range(4):
        seconds = float(random.uniform(2, 9))
        windows = song_windows(round(seconds * 16000), overlap)
        notes = random_notes(random, [0, 33, 100, 128], 60, seconds)
        ids = tokenizer.encode(tokenizer.target_notes(notes), start_samples=windows.starts())
        wrong = random.random(ids.shape) < damage
        ids[wrong] = random.integers(0, tokenizer.vocab_size, int(wrong.sum()))
        stitcher = Stitcher(tokenizer, windows, start_from_ties=bool(trial % 2))
        pieces = [stitcher.add([row.tolist() for row in rows]) for rows in ids]
        assert stitcher.is_complete
        expected, errors = whole(tokenizer, windows, ids, bool(trial % 2))
        assert len(expected) > 5
        assert sorted(note for piece in pieces for note in piece) == expected
        assert stitcher.errors == errors


def test_a_note_over_many_windows_is_one_and_the_others_do_not_wait_for_it() -> None:
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=SEGMENT, max_length=256)
    notes = [Note(0.1, 4.6, 60, 0)] + [Note(i * 0.5 + 0.1, i * 0.5 + 0.3, 64, 0) for i in range(10)]
    for overlap in (0.0, 0.5):
        windows = song_windows(80000, overlap)
        ids = tokenizer.encode(tokenizer.target_notes(notes), start_samples=windows.starts())
        stitcher = Stitcher(tokenizer, windows)
        given: list[Note] = []
        for number, rows in enumerate(ids):
            given += stitcher.add([row.tolist() for row in rows])
            heard = windows.starts()[number] / 16000
            assert {n for n in notes if n.offset < heard - 0.5} <= {
                Note(round(n.onset, 2), round(n.offset, 2), *n[2:]) for n in given
            } | {notes[0]}
        assert [(round(n.onset, 2), round(n.offset, 2)) for n in given if n.pitch == 60] == [(0.1, 4.6)]
        assert len(given) == 11


def test_short_notes_are_left_out_when_asked() -> None:
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=SEGMENT, max_length=256)
    windows = song_windows(16000, 0.0)
    notes = [
        Note(0.1, 0.15, 60),
        Note(0.2, 0.25, 61),
        Note(0.3, 0.36, 62),
        Note(0.98, 1.4, 64),
        Note(0.2, 0.21, 38, 128, True),
    ]
    ids = tokenizer.encode(tokenizer.target_notes(notes), start_samples=windows.starts())

    def pitches(shortest: float) -> list[int]:
        stitcher = Stitcher(tokenizer, windows, shortest=shortest)
        return sorted(n.pitch for rows in ids for n in stitcher.add([row.tolist() for row in rows]))

    assert pitches(0.0) == [38, 60, 61, 62, 64]
    assert pitches(0.05) == [38, 60, 61, 62]
    assert pitches(0.06) == [38, 62]
    assert pitches(1.0) == [38]


@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.75])
def test_pitch_evidence_is_forgotten_and_says_the_same(overlap: float) -> None:
    random = np.random.default_rng(3)
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=SEGMENT, max_length=256)
    windows = song_windows(320000, overlap)
    notes = random_notes(random, [100], 60, 20.0)
    ids = tokenizer.encode(tokenizer.target_notes(notes), start_samples=windows.starts())
    scores = random.normal(0, 1, (windows.num_windows, math.ceil(SEGMENT / 400), 88)).astype(np.float32)
    kept = PitchEvidence(windows.length, SEGMENT, 400)
    for number, values in enumerate(scores):
        kept.add(number * windows.hop, values)
    decoded, _ = whole(tokenizer, windows, ids, False)
    corrected = kept.correct(decoded, 0.2, 16000)
    expected, waiting = join_notes(corrected, math.inf)
    assert not waiting
    assert corrected != decoded
    assert len(expected) < len(decoded), "some are joined"
    passing = PitchEvidence(windows.length, SEGMENT, 400)
    stitcher = Stitcher(tokenizer, windows, evidence=passing, margin=0.2)
    given: list[Note] = []
    most = 0
    for number, rows in enumerate(ids):
        passing.add(number * windows.hop, scores[number])
        given += stitcher.add([row.tolist() for row in rows])
        most = max(most, len(passing._count))
        assert len(stitcher._sung) < 20, "notes that wait for what may meet them"
    assert sorted(given) == sorted(expected)
    assert most < 20 * 40 / 2, "frames of the song that are held at a time"


def test_a_note_that_two_windows_hear_at_two_pitches_is_one_where_the_frame_head_finds_one() -> None:
    tokenizer = NoteTokenizer.from_task("mc13_fsingle_vocal", segment_samples=SEGMENT, max_length=256)
    windows = song_windows(16000, 0.5)
    evidence = PitchEvidence(windows.length, SEGMENT, 400)
    stitcher = Stitcher(tokenizer, windows, evidence=evidence, margin=1.0)
    heard = np.full((math.ceil(SEGMENT / 400), 88), -5.0, np.float32)
    heard[:, 60 - 21] = -0.1
    # The second window begins at 0.25 s and is believed from 0.3 s on: it hears the note an octave up.
    versions = [[Note(0.28, 0.7, 60, 100)], *[[Note(0.27, 0.7, 72, 100)]] * (windows.num_windows - 1)]
    given: list[Note] = []
    for number, notes in enumerate(versions):
        ids = tokenizer.encode(tokenizer.target_notes(notes), start_samples=windows.starts())[number]
        evidence.add(number * windows.hop, heard)
        given += stitcher.add([row.tolist() for row in ids])
    assert [(round(n.onset, 2), round(n.offset, 2), n.pitch) for n in given] == [(0.27, 0.7, 60)]
