"""Quick-start training with one process on all cores against two processes that share batch and cores,
each in float32 and in bfloat16: segments per second of wall time. Needs the quick-start data.

The four run one after the other, twice; the second row of figures shows how steady the machine is.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from amt.cli.quickstart import share_cores
from amt.data.workers import available_cores

STEPS = 200
EVERY = 50


def rate(options: list[str]) -> float:
    """Segments per second, median over pieces of 50 steps, the first left out."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "AMT_LOG_DIR": folder}
        line = [sys.executable, "-m", "amt.train", "speed", "--recipe", "quickstart", "-it", str(STEPS)]
        line += ["-vit", str(10 * STEPS), "--validation-files", "1", *options]
        subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL)
        with next(Path(folder).rglob("metrics.csv")).open(encoding="utf-8") as file:
            rates = [row["segments_per_second"] for row in csv.DictReader(file)]
    return statistics.median([float(value) for value in rates if value][1:])


def main() -> None:
    ways = {
        "one process": [],
        "two processes": share_cores(available_cores()),
    }
    for _ in range(2):
        first = 0.0
        for name, options in ways.items():
            for precision in ("32", "bf16-mixed"):
                value = rate([*options, "-pr", precision])
                first = first or value
                print(f"{name}, {precision}: {value:.1f} segments/s, {value / first:.2f}x", flush=True)


if __name__ == "__main__":
    main()
