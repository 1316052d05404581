"""Tokens and scores of a song of 180 s and 2,700 notes, in CPU time of one thread, median of five.

The published system needed 18.7k (one stream) and 10k (13 channels) seconds of music per second for encoding,
614 and 309 for decoding, and 176 ms for the scores of the file (docs/results.md); it does not run here. The
scores are also timed against mir_eval in the same run, which must give the same values.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import mir_eval
import numpy as np

from amt.config.vocabularies import get_drum_vocab, get_program_vocab
from amt.evaluation import Scoring
from amt.notes import NOTE_DTYPE
from amt.notes.note import NoteArray, array_to_notes
from amt.tokenizer import NoteTokenizer

SECONDS = 180.0
NUM_NOTES = 2700


def make_song(seed: int = 0) -> NoteArray:
    """Notes of a made-up song on six instruments and drums."""
    rng = np.random.default_rng(seed)
    notes = np.zeros(NUM_NOTES, NOTE_DTYPE)
    notes["onset"] = rng.uniform(0, SECONDS - 1, NUM_NOTES)
    notes["offset"] = notes["onset"] + rng.uniform(0.05, 0.8, NUM_NOTES)
    notes["program"] = rng.choice([0, 25, 33, 48, 73, 100, 128], NUM_NOTES)
    notes["is_drum"] = notes["program"] == 128
    notes["pitch"] = np.where(
        notes["is_drum"], rng.choice([36, 38, 42], NUM_NOTES), rng.integers(40, 84, NUM_NOTES)
    )
    notes["velocity"] = 80
    return notes


def make_estimate(song: NoteArray, seed: int = 1) -> NoteArray:
    """What a fair model might find: a tenth missed, onsets 30 ms and offsets 100 ms off, some octaves."""
    rng = np.random.default_rng(seed)
    found = song[rng.random(len(song)) > 0.1]
    found["onset"] = np.maximum(found["onset"] + rng.normal(0, 0.03, len(found)), 0.0)
    found["offset"] = np.maximum(found["offset"] + rng.normal(0, 0.1, len(found)), found["onset"] + 0.02)
    octave = (rng.random(len(found)) < 0.05) & ~found["is_drum"]
    found["pitch"][octave] += 12
    return found


def median_cpu_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median CPU time of ``work``."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure_tokens(task: str, song: NoteArray) -> None:
    """Time encoding and decoding of one task and print a line."""
    tokenizer = NoteTokenizer.from_task(task, segment_samples=32767)
    notes = tokenizer.target_notes(song)
    windows = int(SECONDS * 16000 // 32767) + 1
    ids = tokenizer.encode(notes, num_windows=windows)
    encode = median_cpu_seconds(lambda: tokenizer.encode(notes, num_windows=windows))
    decode = median_cpu_seconds(lambda: tokenizer.decode(ids))
    print(f"{task:20s} encode {SECONDS / encode:9,.0f} s/s   decode {SECONDS / decode:9,.0f} s/s")


def mir_eval_scores(song: NoteArray, found: NoteArray, vocab: dict[str, tuple[int, ...]]) -> dict[str, float]:
    """Onset and onset-offset F1 of all pitched notes and of every class, by mir_eval."""
    scores = {}
    for name, programs in {"": tuple(range(128)), **vocab}.items():
        sides = []
        for notes in (song, found):
            part = notes[np.isin(notes["program"], programs) & ~notes["is_drum"]]
            times = np.stack([part["onset"], part["offset"]], axis=1)
            sides += [times, mir_eval.util.midi_to_hz(part["pitch"].astype(float))]
        for kind, ratio in (("onset_f", None), ("offset_f", 0.2)):
            key = f"{kind}_{name}" if name else kind
            if len(sides[0]):
                scores[key] = mir_eval.transcription.precision_recall_f1_overlap(*sides, offset_ratio=ratio)[
                    2
                ]
    return scores


def measure_scores(song: NoteArray) -> None:
    """Time all scores of the file, with all classes, and print a line for each vocabulary."""
    found = make_estimate(song)
    notes = array_to_notes(found)
    for name in ("gm_plus", "mt3_full_plus"):
        vocab = get_program_vocab(name)
        for label, octave_free in (("", ()), (", octave-free too", tuple(vocab))):
            scoring = Scoring(vocab, get_drum_vocab("ksh"), octave_free)
            used = median_cpu_seconds(lambda scoring=scoring: scoring.counts(song, notes).scores())
            title = f"scores, {name}{label}"
            print(f"{title:40s} {used * 1000:6.1f} ms for {len(scoring.keys())} keys")
    vocab = get_program_vocab("gm_plus")
    ours = Scoring(vocab).counts(song, found).scores()
    theirs = mir_eval_scores(song, found, vocab)
    largest = max(abs(ours[key] - value) for key, value in theirs.items())
    used = median_cpu_seconds(lambda: mir_eval_scores(song, found, vocab), repeats=3)
    title = f"mir_eval, gm_plus, {len(theirs)} of these keys"
    print(f"{title:40s} {used * 1000:6.1f} ms, largest difference {largest:.0e}")


def main() -> None:
    song = make_song()
    for task in ("mt3_full_plus", "mc13_fsingle", "mc13_full_plus_256"):
        measure_tokens(task, song)
    measure_scores(song)


if __name__ == "__main__":
    main()
