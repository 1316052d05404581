"""Transcribe a folder of songs and score each that has a MIDI file of the same name beside it.

    python examples/transcribe_folder.py CHECKPOINT FOLDER OUT [PROGRAM]

CHECKPOINT is exp, exp@last.ckpt or the path of a file. OUT gets a MIDI file for each song and scores.csv.
PROGRAM (0 to 127; 100 is a lead voice) says what all pitched notes of the MIDI files beside the songs are.
"""

import csv
import sys
from pathlib import Path

from amt.cli.command import run_command
from amt.evaluation import score_notes
from amt.inference import load_transcriber, read_reference
from amt.notes import write_midi

SOUNDS = {".wav", ".flac", ".mp3", ".ogg"}
SHOWN = ("onset_f", "offset_f")


def main(checkpoint: str, folder: Path, out: Path, program: int | None = None) -> int:
    """Return how many songs could not be read."""
    songs = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SOUNDS)
    if not songs:
        sys.exit(f"{folder} holds no audio file")
    transcriber = load_transcriber(checkpoint)
    out.mkdir(parents=True, exist_ok=True)
    task = transcriber.tokenizer.task
    rows, failed = [], 0
    for number, result in transcriber.transcribe_songs(songs):  # in the order in which they are done
        song = songs[number]
        if isinstance(result, Exception):
            print(f"{song}: {result}", file=sys.stderr)
            failed += 1
            continue
        target = out / song.relative_to(folder).with_suffix(".mid")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_midi(result.notes, target)
        line = f"{song.name}: {len(result.notes)} notes"
        reference = song.with_suffix(".mid")
        if reference.is_file():
            # Only the notes that the task is about: a model of voices is not blamed for the bass.
            truth = read_reference(reference, transcriber.tokenizer, transcriber.subtask, program)
            if truth.remark:
                way_out = f"; PROGRAM says what they are ({truth.choices})" if truth.choices else ""
                print(f"note: {truth.remark}{way_out}", file=sys.stderr)
            if any(not note.is_drum for note in truth.notes):
                scores = score_notes(truth.notes, result.notes, task)
                rows.append({"song": str(song.relative_to(folder)), **{name: scores[name] for name in SHOWN}})
                line += "".join(f", {name} {scores[name]:.3f}" for name in SHOWN)
            elif truth.notes:
                line += ", not scored: its reference has drums alone"
        print(line)
    with (out / "scores.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["song", *SHOWN])
        writer.writeheader()
        writer.writerows(rows)
    for name in SHOWN if rows else ():
        print(f"mean {name} of {len(rows)} songs: {sum(row[name] for row in rows) / len(rows):.3f}")
    return failed


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or not all(word.isdigit() for word in sys.argv[4:]):
        sys.exit(__doc__)
    # A mistake is one sentence, as in the commands of amt.
    sys.exit(
        run_command(lambda words: main(words[0], Path(words[1]), Path(words[2]), *map(int, words[3:])) > 0)
    )
