"""Kills a tiny run at random instants, then compares it with the run that nobody killed.

``kill_scenario.py FOLDER COUNT SEED`` prints one line of JSON: the kills, the steps reached, and the columns
of ``metrics.csv`` and the weights in which the two runs differ.
"""

import csv
import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import tiny
import torch

from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import diagnose_file, read_header

SETTINGS = {
    "trainer__val_interval": 3,
    "trainer__accumulate_grad_batches": 2,
    "data__samples_per_epoch": 20,
    "checkpoint__save_every_n_train_steps": 1,
    "checkpoint__save_before_val": True,
    "checkpoint__save_top_k": 2,
    "optimizer__ema_decay": 0.9,
    "lr_schedule__name": "constant",
}
COLUMNS = ("train_loss", "lr", "grad_norm", "val_loss", "nan_lr_scale")


def start(folder: Path, data: Path, max_steps: int) -> int:
    """Start or resume the run."""
    last = folder / "checkpoints" / "last.ckpt"
    decided = {}
    if last.exists():
        decided = {"checkpoint": last, "kind": "resume", "step": read_header(last).step}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tiny.train(
            folder, data, fault="nan@5:0", **decided, **{**SETTINGS, "trainer__max_steps": max_steps}
        )


def step_of(last: Path) -> int:
    header = read_header(last) if last.exists() else None
    return 0 if header is None else header.step or 0


def curves(folder: Path, until: int) -> dict[str, dict[int, str]]:
    with open(folder / "metrics.csv", newline="") as file:
        found = list(csv.DictReader(file))
    return {
        column: {
            int(row["step"]): row[column] for row in found if row.get(column) and int(row["step"]) <= until
        }
        for column in COLUMNS
    }


def main(root: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    data = tiny.make_store(root / "data")
    killed, whole = root / "p" / "killed", root / "p" / "whole"
    last = killed / "checkpoints" / "last.ckpt"
    for _ in range(count):
        child = os.fork()
        if child == 0:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            start(killed, data, 10_000)
            os._exit(1)
        began, deadline = step_of(last), time.monotonic() + 1200
        goal = began + rng.randint(1, 3)
        while step_of(last) < goal:
            assert time.monotonic() < deadline, f"no step since {began}"
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert diagnose_file(last) is None
        assert read_checkpoint(last)["global_step"] >= goal
        for path in last.parent.glob("*.ckpt"):
            assert diagnose_file(path) is None, path
            if path.name.startswith(("preval-step=", "step=")):
                path.unlink()  # kept by the run; here they would only cost time
    steps = step_of(last)
    sys.stdout.flush()
    status = start(killed, data, steps + 2)
    assert status == 0
    assert start(whole, data, steps + 2) == 0
    one, two = curves(killed, steps + 2), curves(whole, steps + 2)
    different = [
        column
        for column in COLUMNS
        if not one[column] or any(two[column].get(step) != value for step, value in one[column].items())
    ]
    # A kill between a step's checkpoint and its row in metrics.csv costs that row, and nothing else.
    missing = [
        (column, step)
        for column in ("train_loss", "val_loss")
        for step in set(two[column]) - set(one[column])
    ]
    assert len(missing) <= count, missing
    first, second = (read_checkpoint(item / "checkpoints" / "last.ckpt") for item in (killed, whole))
    different += [
        name
        for name, value in first["state_dict"].items()
        if not torch.equal(value, second["state_dict"][name])
    ]
    print(json.dumps({"kills": count, "steps": steps, "different": different}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
