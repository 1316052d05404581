"""Which part of the quick-start mixes costs the score: the voice alone, with parts of the mix, or louder.

``python benchmarks/what_masks_the_voice.py [MODEL]``; needs the quick-start data and a model (default: the
one ``make quickstart`` left).
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

import numpy as np

from amt.data.store import Song, SongStore
from amt.evaluation import note_prf
from amt.inference import SongTranscriber, load_transcriber
from amt.notes import array_to_notes
from amt.quickstart.scoring import VOICE_PROGRAMS, voice_notes

ROOT = Path(__file__).resolve().parents[1]
SPLITS = ("validation_hard", "test_hard")
MIXES = (
    "voice alone",
    "voice and noise",
    "voice and pitched stems",
    "everything",
    "the rest 6 dB down",
)


def gain(mix: str, programs: list[int]) -> float:
    """Factor on a stem with these programs."""
    if set(programs) & set(VOICE_PROGRAMS):
        return 1.0
    pitched = bool(programs) and 128 not in programs
    return {
        "voice alone": 0.0,
        "voice and noise": float(not programs),
        "voice and pitched stems": float(pitched),
        "everything": 1.0,
        "the rest 6 dB down": 0.5,
    }[mix]


def score(transcriber: SongTranscriber, song: Song, mix: str) -> float:
    """Voice onset F1 of one song in one mix."""
    gains = np.array([gain(mix, programs) for programs in song.stem_programs], dtype=np.float32)
    audio = gains @ (np.asarray(song.stems, dtype=np.float32) / 32768)
    estimate = voice_notes(transcriber.transcribe(audio, song.sample_rate).notes)
    reference = voice_notes(array_to_notes(song.notes))
    return note_prf(reference, estimate).f


def main() -> None:
    model = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "quickstart" / "model.ckpt"
    transcriber = load_transcriber(model, device="cpu")
    store = SongStore.open(ROOT / "data" / "quickstart")
    for split in SPLITS:
        songs = [store.song(split, number) for number in range(store.splits[split])]
        for mix in MIXES:
            print(f"{split}, {mix}: {fmean(score(transcriber, song, mix) for song in songs):.3f}", flush=True)


if __name__ == "__main__":
    main()
