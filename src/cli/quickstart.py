"""``make quickstart``: data, training, transcription, scores and report in one go."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.environment import default_root, read_environment
from ..config.experiment import Experiment
from ..training.identity import run_folder
from . import train
from .command import EXIT_OK, run_command
from .parser import Option, UsageError, format_help, parse

OPTIONS: tuple[Option, ...] = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option("--minutes", "training time, validation not counted", kind="float", group="options"),
    Option("--seed", "seed of the run", kind="int", group="options"),
    Option("--out", "folder of the results", metavar="FOLDER", group="options"),
)
DEFAULTS = {"--minutes": "10", "--seed": "0", "--out": "quickstart, beside data and logs"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the quick start and return its exit code."""
    return run_command(_run, argv)


def train_line(minutes: float, seed: int, further: Sequence[str] = ()) -> list[str]:
    """The arguments of ``train.py`` for a quick start; every budget and seed has a run of its own."""
    name = f"quickstart-{minutes:g}min-seed{seed}"
    return [name, "--recipe", "quickstart", "--max-minutes", f"{minutes:g}", "--seed", str(seed), *further]


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, OPTIONS)
    if command.has("--help"):
        print(
            format_help(
                "python -m amt.cli.quickstart [options] [-- options of train.py]",
                "Make the quick-start data if it is not there, train the small model, transcribe songs it "
                "never heard, score them and write a report. A run that was stopped goes on; a finished one "
                "is only scored again (AMT_FORCE_SCRATCH=1 trains anew).",
                OPTIONS,
                DEFAULTS,
                ("options",),
            ),
            end="",
        )
        return EXIT_OK
    minutes = float(command.get("--minutes", float(DEFAULTS["--minutes"])))
    seed = int(command.get("--seed", int(DEFAULTS["--seed"])))
    if minutes <= 0:
        raise UsageError(f"--minutes must be positive, not {minutes:g}")
    environment = read_environment(os.environ)
    line = train_line(minutes, seed, command.words)
    from ..quickstart.run import QuickstartPaths, run_quickstart

    return run_quickstart(
        QuickstartPaths(
            data_home=environment.data_home,
            run_folder=run_folder(environment.log_dir, Experiment().project, line[0]),
            out=Path(str(command.get("--out", str(default_root() / "quickstart")))).absolute(),
        ),
        lambda: train.main(line),
        minutes=minutes,
        seed=seed,
    )


if __name__ == "__main__":
    sys.exit(main())
