"""How numbers are kept until the gradient is known, and sums of them; :mod:`.activations` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FLOAT = 4
"""Bytes of a float32."""
INDEX = 8
"""Bytes of an int64."""


class Layer(NamedTuple):
    """Bytes of one segment."""

    kept: float
    start: float
    """Its input alone, which checkpointing keeps."""


@dataclass(frozen=True)
class Format:
    """How numbers are kept."""

    mixed: bool = False
    """bf16-mixed or 16-mixed."""
    on_cpu: bool = True

    @property
    def low(self) -> int:
        """Bytes of what matrices read and give."""
        return 2 if self.mixed else FLOAT

    def mask(self, size: float, dropout: float) -> float:
        """A dropout mask over ``size`` numbers."""
        return size if dropout > 0 else 0.0

    def fed(self, size: float, readers: int, low: bool = False) -> float:
        """A map of ``size`` that ``readers`` matrices read: in float32 each casts it for itself."""
        return size * (2 * (1 if low else readers) if self.mixed else FLOAT)

    def norm(self, size: float, readers: int, *, rms: bool = True, low: bool = False) -> float:
        """A norm over ``size`` numbers and the matrices that read it; ``low``: they have the run's format."""
        if rms:  # works in float32 and gives back the format it was given
            return FLOAT * size + self.fed(size, readers, low)
        if self.on_cpu:  # works in the format it was given
            return self.stream(low) * size + self.fed(size, readers, low)
        return FLOAT * size + self.fed(size, readers)

    def stream(self, low: bool) -> int:
        """Bytes of the states between layers, which are float32 unless ``low``."""
        return self.low if low else FLOAT

    def attention(
        self, queries: float, keys: float, heads: int, qk: int, v: int, dropout: float, pairs: float
    ) -> float:
        """Queries, keys, values, output. ``pairs``: how many pairs of positions meet."""
        if not self.on_cpu:
            return self.low * (queries + keys) * (qk + v) + FLOAT * heads * queries
        kept = FLOAT * (queries * qk + keys * (qk + v)) + self.low * queries * v
        if dropout > 0:
            return kept + FLOAT * heads * pairs
        return kept + FLOAT * heads * queries + (FLOAT * queries * v if self.mixed else 0.0)


@dataclass
class Count:
    """Bytes of a whole network, one segment."""

    layers: list[Layer] = field(default_factory=list)
    """Those that checkpointing computes twice."""
    loose: float = 0.0
    """What is kept in any case."""
    backward: float = 0.0
    """Made at the start of the way back, while everything else is still there."""

    def kept(self, recompute: bool) -> float:
        """Until the way back begins."""
        if not recompute or not self.layers:
            return self.loose + sum(layer.kept for layer in self.layers)
        return self.loose + sum(layer.start for layer in self.layers)

    def peak(self, recompute: bool) -> float:
        """The most there is at a time."""
        again = max((layer.kept for layer in self.layers), default=0.0) if recompute else 0.0
        return self.kept(recompute) + max(self.backward, again)
