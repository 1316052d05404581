"""``make quickstart``: data, training, transcription, scores and report in one go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from ..config.environment import default_root, read_environment
from ..config.experiment import Experiment
from ..config.recipes import get_recipe
from ..data.workers import available_cores
from ..training.identity import run_folder
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


def train_line(
    minutes: float, seed: int, further: Sequence[str] = (), *, cores: int = 1, fast_bf16: bool = False
) -> list[str]:
    """The arguments of ``train.py`` for a quick start; every budget and seed has a run of its own.

    Args:
        minutes: training time.
        seed: of the run.
        further: added at the end, so they win.
        cores: CPU cores that train; 1 also where a GPU does.
        fast_bf16: whether the CPU has matrix units for bfloat16.
    """
    name = f"quickstart-{minutes:g}min-seed{seed}"
    budget = ["--max-minutes", f"{minutes:g}", "--seed", str(seed)]
    precision = ["-pr", "bf16-mixed"] if fast_bf16 else []
    return [name, "--recipe", "quickstart", *budget, *share_cores(cores), *precision, *further]


class Machine(TypedDict):
    """Keyword arguments of :func:`train_line`."""

    cores: int
    fast_bf16: bool


def machine() -> Machine:
    """What :func:`train_line` must know of this machine. Imports torch."""
    import torch

    from ..training.trainer import fast_bf16_on_cpu

    if torch.cuda.is_available():
        return {"cores": 1, "fast_bf16": False}
    return {"cores": available_cores(), "fast_bf16": fast_bf16_on_cpu()}


def share_cores(cores: int) -> list[str]:
    """Options that put all cores to work: two processes with half of the recipe's batch each.

    So small a network makes threads wait for each other at every layer; processes meet once a step
    (``benchmarks/processes.py``).
    """
    batch = int(get_recipe("quickstart")["bsz.local"])
    if cores < 2:
        return []
    half = str(batch // 2)
    return ["-st", "ddp", "-g", "2", "-bsz", half, half, "--threads", str(cores // 2)]


def run_training(line: Sequence[str]) -> int:
    """Run ``train.py`` with these arguments in a process of its own; returns its exit status.

    Ctrl-C reaches that process too, which then saves and ends; SIGTERM is passed on to it.
    """
    child = subprocess.Popen([sys.executable, "-m", "amt.train", *line])
    previous = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGTERM, previous)


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
    from ..quickstart.run import QuickstartPaths, run_quickstart

    line = train_line(minutes, seed, command.words, **machine())
    return run_quickstart(
        QuickstartPaths(
            data_home=environment.data_home,
            run_folder=run_folder(environment.log_dir, Experiment().project, line[0]),
            out=Path(str(command.get("--out", str(default_root() / "quickstart")))).absolute(),
        ),
        lambda: run_training(line),
        minutes=minutes,
        seed=seed,
    )


if __name__ == "__main__":
    sys.exit(main())
