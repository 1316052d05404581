"""Fine-tune a published YourMT3+ checkpoint on a folder of songs, beside data it knows, lest it forgets.

    python examples/fine_tune.py NAME PUBLISHED FOLDER OLD [options of train.py]
    python src/test.py --compare NAME.start.ckpt NAME@last.ckpt -d OLD NAME_songs

PUBLISHED is a file of YourMT3+, FOLDER holds song.wav beside song.mid, OLD is a data preset or a prepared
store. NAME is the run, NAME_songs its store, NAME.start.ckpt what it starts from. The same command goes on
with a run that was broken off. The second command says what was learned and what was forgotten.
"""

import os
import sys
from pathlib import Path

from amt.cli import convert, prepare, train
from amt.cli.command import run_command
from amt.config import MultiPreset, add_preset
from amt.config.environment import read_environment
from amt.config.presets import combine_presets

OLD_SHARE = 0.3  # of the training segments; more forgets less and learns the new songs slower
# A small and constant rate: the weights are near a good place, and a jump is the usual cause of NaN.
DEFAULTS = ["-o", "AdamW", "-lr", "1e-5", "-s", "constant", "-it", "5000", "-vit", "500"]


def mixture(name: str, songs: str, old: MultiPreset) -> MultiPreset:
    """The store ``songs`` and the members of ``old``, which keep their shares among each other."""
    scale = OLD_SHARE / sum(old.weights)
    weights = (1 - OLD_SHARE, *(scale * weight for weight in old.weights))
    return MultiPreset(name, (songs, *old.presets), weights, (None, *old.eval_vocab))


def main(name: str, published: Path, folder: Path, old: str, options: list[str]) -> int:
    """Convert, prepare and train; what is there already is left as it is."""
    data_home = read_environment(os.environ).data_home
    start, songs = Path(f"{name}.start.ckpt"), f"{name}_songs"
    mix = mixture(f"{name}_mix", songs, combine_presets([old], data_home))  # an unknown name is said at once
    if not start.exists() and (status := convert.main([str(published), str(start)])):
        return status
    if not (data_home / songs / "store.json").exists() and (
        status := prepare.main(["folder", str(folder), "--name", songs])
    ):
        return status
    add_preset(mix)
    # The file beside the checkpoint is its configuration; flags win over it, the last of each kind.
    given = ["--config", str(start.with_suffix(".json")), "--init-ckpt", str(start), "-d", mix.name]
    return train.main([name, *given, *DEFAULTS, *options])


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    # A mistake is one sentence, as in the commands of amt.
    sys.exit(
        run_command(lambda words: main(words[0], Path(words[1]), Path(words[2]), words[3], list(words[4:])))
    )
