"""Tokens and notes of a song of 180 s and 2,700 notes: seconds of music per CPU second, one thread.

The published system needed 18.7k (one stream) and 10k (13 channels) seconds per second for encoding, and 614
and 309 for decoding (docs/results.md); it does not run here, so these are rates, not ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from amt.notes import NOTE_DTYPE
from amt.tokenizer import NoteTokenizer

SECONDS = 180.0
NUM_NOTES = 2700


def make_song(seed: int = 0) -> np.ndarray:
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


def median_cpu_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median CPU time of ``work``."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure(task: str, song: np.ndarray) -> None:
    """Time one task and print a line."""
    tokenizer = NoteTokenizer.from_task(task, segment_samples=32767)
    notes = tokenizer.target_notes(song)
    windows = int(SECONDS * 16000 // 32767) + 1
    ids = tokenizer.encode(notes, num_windows=windows)
    encode = median_cpu_seconds(lambda: tokenizer.encode(notes, num_windows=windows))
    decode = median_cpu_seconds(lambda: tokenizer.decode(ids))
    print(f"{task:20s} encode {SECONDS / encode:9,.0f} s/s   decode {SECONDS / decode:9,.0f} s/s")


def main() -> None:
    song = make_song()
    for task in ("mt3_full_plus", "mc13_fsingle", "mc13_full_plus_256"):
        measure(task, song)


if __name__ == "__main__":
    main()
