"""The network, from waveform to token logits, and the files its weights lie in."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import build_from, build_model
    from .exporting.programs import export_graphs
    from .exporting.weights import export_weights
    from .importing.convert import convert_checkpoint
    from .importing.export import export_checkpoint
    from .transcriber import Encoded, Transcriber

__all__ = [
    "Encoded",
    "Transcriber",
    "build_from",
    "build_model",
    "convert_checkpoint",
    "export_checkpoint",
    "export_graphs",
    "export_weights",
]

# Loaded when first used, so that looking at a checkpoint file does not load torch.
_HOMES = {
    "Encoded": "transcriber",
    "Transcriber": "transcriber",
    "build_from": "build",
    "build_model": "build",
    "convert_checkpoint": "importing.convert",
    "export_checkpoint": "importing.export",
    "export_graphs": "exporting.programs",
    "export_weights": "exporting.weights",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
