"""Training data whose loader processes are forked, from the store of tones of ``tests/data``."""

from __future__ import annotations

from pathlib import Path

from amt.config import AudioConfig, Augmentation, BatchSizes, DataConfig, DataIO, Experiment
from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer

SEGMENT = 8000
AHEAD = 2
"""Batches that each process may be ahead."""


def module(home: Path, workers: int, *, persistent: bool = True, **augmentation: object) -> TranscriptionData:
    """Local batches of four segments, in halves."""
    run = Experiment(
        seed=5,
        audio=AudioConfig(segment_samples=SEGMENT),
        bsz=BatchSizes(sub=2, local=4),
        dataio=DataIO(num_workers=workers, prefetch_factor=AHEAD, persistent_workers=persistent),
        data=DataConfig(presets=("tones",)),
        augmentation=Augmentation(**augmentation),  # type: ignore[arg-type]
    )
    tokenizer = NoteTokenizer.from_task(run.task, segment_samples=SEGMENT, max_length=256)
    return TranscriptionData(run, tokenizer, home, context="fork")
