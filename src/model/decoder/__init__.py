"""From encoder states to tokens."""

from __future__ import annotations

from .choice import Constraint, DecodingOptions, policy_log_probs
from .stream import Generated, Row, collect, decode_stream, generate, greedy_decode
from .t5 import T5Decoder
from .weights import DecoderWeights

__all__ = [
    "Constraint",
    "DecoderWeights",
    "DecodingOptions",
    "Generated",
    "Row",
    "T5Decoder",
    "collect",
    "decode_stream",
    "generate",
    "greedy_decode",
    "policy_log_probs",
]
