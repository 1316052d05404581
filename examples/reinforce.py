"""The reinforcement stage: from a model whose cross-entropy has converged to one with better onsets.

    python examples/reinforce.py NAME CONVERGED DATA [options of train.py]

CONVERGED is exp, exp@last.ckpt or the path of a file, DATA a data preset or a prepared store. NAME is the new
run; the same command goes on with it. Start from a model that writes notes: rewards tell nothing apart where
all samples are empty. docs/objective.md says what the options mean and what to do when the score falls.
"""

import csv
import os
import sys
from pathlib import Path

from amt.cli import train
from amt.cli.command import run_command
from amt.config.environment import read_environment
from amt.inference import find_checkpoint, load_transcriber

SCORE = "validation/macro_onset_f"
# Four samples of a segment are compared with each other; the reward is what is to rise, the F1 of onsets.
STAGE = ["--rl-enable", "true", "--rl-reward-type", "onset_f", "--rl-baseline", "group", "--rl-samples", "4"]
# Policy gradients are noisy: a tenth of the usual rate, and no term but what the last stage converged with.
PACE = ["-o", "AdamW", "-lr", "1e-5", "-s", "constant", "-it", "5000", "-vit", "500"]


def main(name: str, converged: str, data: str, options: list[str]) -> int:
    """Train, then say how reward and score went."""
    environment = read_environment(os.environ)
    start = find_checkpoint(converged, log_dir=environment.log_dir)
    experiment = load_transcriber(start, device="cpu").experiment
    config = Path(f"{name}.start.json")
    config.write_text(experiment.to_json(), encoding="utf-8")
    os.environ.setdefault("AMT_VALIDATE_BEFORE_FIT", "1")  # the score to compare with
    given = ["--config", str(config), "--init-ckpt", str(start), "-d", data]
    if status := train.main([name, *given, *STAGE, *PACE, *options]):
        return status
    report(environment.log_dir / experiment.project / name / "metrics.csv")
    return 0


def report(metrics: Path) -> None:
    """Print first and last of reward, entropy and score."""
    with metrics.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for column in ("rl_reward", "rl_entropy", SCORE):
        values = [float(row[column]) for row in rows if row.get(column)]
        if values:
            print(f"{column}: {values[0]:.3f} at first, {values[-1]:.3f} in the end")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    # A mistake is one sentence, as in the commands of amt.
    sys.exit(run_command(lambda words: main(words[0], words[1], words[2], list(words[3:]))))
