"""Audio in, notes out: checkpoints found and loaded, songs cut, decoded and stitched, results written."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import run_batch
    from .choices import DecodingChoices
    from .find import find_checkpoint
    from .piano_roll import draw_piano_roll
    from .predict import run_predict
    from .reference import read_reference
    from .render import render_notes, write_wav
    from .transcriber import SongTranscriber, Transcription, load_transcriber, untrained_transcriber

__all__ = [
    "DecodingChoices",
    "SongTranscriber",
    "Transcription",
    "draw_piano_roll",
    "find_checkpoint",
    "load_transcriber",
    "read_reference",
    "render_notes",
    "run_batch",
    "run_predict",
    "untrained_transcriber",
    "write_wav",
]

# Loaded when first used, so that finding a checkpoint or drawing a picture does not load torch.
_HOMES = {
    "DecodingChoices": "choices",
    "SongTranscriber": "transcriber",
    "Transcription": "transcriber",
    "draw_piano_roll": "piano_roll",
    "find_checkpoint": "find",
    "load_transcriber": "transcriber",
    "read_reference": "reference",
    "render_notes": "render",
    "run_batch": "batch",
    "run_predict": "predict",
    "untrained_transcriber": "transcriber",
    "write_wav": "render",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
