"""What a server takes, does and keeps at most. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds of a server; each is an option of ``serve.py``."""

    max_mb: int = 200
    """Size of a file that is sent, in MiB."""
    max_minutes: float = 20.0
    """Length of a song."""
    max_waiting: int = 8
    """Songs that wait for their turn, those that are being sent among them."""
    max_work_minutes: float = 60.0
    """Time that the transcription of a song may take."""
    keep: int = 10
    """Finished songs that are kept; a further one takes the place of the oldest."""

    def __post_init__(self) -> None:
        for name in ("max_mb", "max_waiting", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{_option(name)} must be at least 1, is {getattr(self, name)}")
        for name in ("max_minutes", "max_work_minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{_option(name)} must be above 0, is {getattr(self, name):g}")

    @property
    def max_bytes(self) -> int:
        """Size of a file in bytes."""
        return self.max_mb * MIB

    @property
    def max_seconds(self) -> float:
        """Length of a song in seconds."""
        return 60.0 * self.max_minutes


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
