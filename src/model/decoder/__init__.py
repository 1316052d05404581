"""From encoder states to tokens."""

from __future__ import annotations

from .greedy import greedy_decode
from .t5 import T5Decoder

__all__ = ["T5Decoder", "greedy_decode"]
