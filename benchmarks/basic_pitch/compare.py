"""Score basic-pitch on the quick-start test mixes, in its favour, beside a checkpoint of ours.

Usage: python benchmarks/basic_pitch/compare.py [--checkpoint FILE] [--store DIR]
                                                [--python BASIC_PITCH_PYTHON] [--midi FOLDER]

basic-pitch hears every note of the mix, so four readings of its output are scored against the voice:
all notes; only notes within the song's true voice range; of those, the highest sounding; the loudest
sounding. Every reading and threshold is printed and the best *on the test set itself* counts: an upper
bound in its favour. It was not trained on this synthetic data; ours was.

With --midi all notes that it finds at its default thresholds are written as sung notes, FOLDER/SONG.mid:
`amt-test -d quickstart -tk mc13_fsingle_vocal --estimates FOLDER` reports on them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from amt.data.store import SongStore
from amt.evaluation import score_notes
from amt.notes import Note, array_to_notes, write_midi

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEFAULT_THRESHOLDS = "0.5/0.3"
THRESHOLDS = f"{DEFAULT_THRESHOLDS},0.6/0.4,0.7/0.5,0.8/0.5"
READINGS = ("all", "range", "highest", "loudest")
Event = tuple[float, float, int, float]


def read(events: list[Event], reading: str, low: int, high: int) -> list[Note]:
    """The events as voice notes under one of ``READINGS``."""
    if reading != "all":
        events = [event for event in events if low <= event[2] <= high]
    if reading in ("highest", "loudest"):
        key = 2 if reading == "highest" else 3
        kept: list[Event] = []
        for event in sorted(events, key=lambda item: -item[key]):
            centre = (event[0] + event[1]) / 2
            if not any(other[0] <= centre < other[1] for other in kept):
                kept.append(event)
        events = kept
    return [Note(start, end, pitch, 100) for start, end, pitch, _ in sorted(events)]


def score_estimates(
    estimates: dict[str, list[Event]], references: dict[str, list[Note]], reading: str
) -> float:
    """Mean onset F1 over songs."""
    scores = []
    for song, reference in references.items():
        pitches = [note.pitch for note in reference]
        events = [(e[0], e[1], int(e[2]), e[3]) for e in estimates[song]]
        estimate = read(events, reading, min(pitches), max(pitches))
        scores.append(score_notes(reference, estimate)["onset_f"])
    return float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default=str(ROOT / "quickstart" / "model.ckpt"))
    parser.add_argument("--store", type=Path, default=ROOT / "data" / "quickstart")
    parser.add_argument("--python", default=str(ROOT / ".bench" / "basic-pitch" / "bin" / "python"))
    parser.add_argument("--midi", type=Path, help="folder to keep what basic-pitch found")
    arguments = parser.parse_args()
    store = SongStore.open(arguments.store)
    table: dict[str, dict[str, float]] = {}
    for split in ("test_standard", "test_hard"):
        references: dict[str, list[Note]] = {}
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number in range(store.splits[split]):
                song = store.song(split, number)
                path = Path(folder) / f"{number:03d}.wav"
                soundfile.write(path, song.mix(), 16000, subtype="FLOAT")
                references[path.stem] = [note for note in array_to_notes(song.notes) if note.program == 100]
                files.append(str(path))
            result = Path(folder) / "result.json"
            subprocess.run(
                [arguments.python, str(HERE / "estimate.py"), str(result), THRESHOLDS, *files], check=True
            )
            estimates = json.loads(result.read_text())
        if arguments.midi is not None:
            arguments.midi.mkdir(parents=True, exist_ok=True)
            ids = store.index(split)["song_id"].tolist()
            for song_id, events in zip(ids, estimates[DEFAULT_THRESHOLDS].values(), strict=True):
                write_midi(read(events, "all", 0, 127), arguments.midi / f"{song_id}.mid")
        rows = table[split] = {}
        for pair, songs in estimates.items():
            for reading in READINGS:
                rows[f"basic-pitch {pair} {reading}"] = score_estimates(songs, references, reading)
        notes = sum(map(len, references.values()))
        print(f"\n{split}: {len(references)} songs, {notes} voice notes (synthetic)")
        for name, value in sorted(rows.items(), key=lambda item: item[1]):
            print(f"  {value:.3f}  {name}")
    if Path(arguments.checkpoint).exists():
        from amt.inference import load_transcriber
        from amt.quickstart.scoring import score_split

        transcriber = load_transcriber(arguments.checkpoint)
        for split, rows in table.items():
            ours = score_split(transcriber, store, split).onset_f
            best = max(rows, key=lambda name: rows[name])
            print(f"{split}: ours {ours:.3f}, best reading of basic-pitch {rows[best]:.3f} ({best})")
    else:
        print(f"no checkpoint at {arguments.checkpoint}: run make quickstart first", file=sys.stderr)


if __name__ == "__main__":
    main()
