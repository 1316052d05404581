"""What label buckets save: a training step on real label lengths against padding to the full length.

The same batch, the same loss to 1e-5; CPU seconds, one thread, median of five. Needs the quick-start data.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.recipes import get_recipe
from amt.data.module import TranscriptionData
from amt.losses import token_cross_entropy
from amt.model import build_from
from amt.tokenizer import NoteTokenizer

DATA = Path(__file__).resolve().parents[1] / "data"


def compare(length: int) -> None:
    """Time one full length and print a line."""
    changes = {**get_recipe("quickstart"), "event_length": length}
    experiment = replace_leaves(Experiment(), changes)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    shifts = tokenizer.token_range("shift")
    batch = next(iter(TranscriptionData(experiment, tokenizer, DATA).train_dataloader()))
    torch.manual_seed(0)
    model = build_from(experiment, tokenizer)
    padded = torch.nn.functional.pad(batch.labels, (0, length - batch.labels.shape[-1]))

    def step(labels: Tensor) -> float:
        loss = token_cross_entropy(model(batch.audio, labels), labels, shift_range=shifts)
        loss.backward()
        model.zero_grad()
        return float(loss.detach())

    difference = abs(step(batch.labels) - step(padded))
    ratios = []
    for _ in range(5):
        times = []
        for labels in (batch.labels, padded):
            start = time.process_time()
            step(labels)
            times.append(time.process_time() - start)
        ratios.append(times[1] / times[0])
    print(
        f"labels of {batch.labels.shape[-1]} against {length}: {statistics.median(ratios):.1f}x less CPU "
        f"time, loss differs by {difference:.1e}"
    )


def main() -> None:
    torch.set_num_threads(1)
    compare(256)
    compare(2048)


if __name__ == "__main__":
    main()
