"""A task of your own without a change of the library: here one that writes the bass alone.

    python examples/own_task.py train bass --recipe quickstart -d mysongs --max-minutes 10
    python examples/own_task.py predict bass@last.ckpt song.wav

The first word is the command, the rest are its options. A task to keep is a row of the table: see
docs/extending.md.
"""

import importlib
import sys

from amt.config import Task, add_task, get_program_vocab

BASS = get_program_vocab("gm_plus")["Bass"]
COMMANDS = ("train", "predict", "test", "export")

# Outside of main: processes that load data import this file again and need the task too.
add_task(Task("bass_alone", "gm_plus", target_programs=BASS, transcribes_drums=False, merge_classes=True))


def main() -> int:
    """Run a command of amt that knows the task."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: own_task.py {'|'.join(COMMANDS)} ...")
    name, words = sys.argv[1], sys.argv[2:]
    if name == "train":
        # The quick start's frame head hears voices, and its pitch check asks it; this one hears pitches.
        words += ["-tk", "bass_alone", "--frame-head", "pitched", "--pitch-check", "0"]
    run = importlib.import_module(f"amt.cli.{name}").main
    status: int = run(words)
    return status


if __name__ == "__main__":
    sys.exit(main())
