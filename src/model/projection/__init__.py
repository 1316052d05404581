"""From the encoder's states to what the decoder attends to."""

from __future__ import annotations

from .build import build_projection

__all__ = ["build_projection"]
