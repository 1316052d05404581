"""How songs are transcribed."""

from __future__ import annotations

from dataclasses import dataclass

MAX_OVERLAP = 0.9


@dataclass(frozen=True)
class InferenceConfig:
    """Transcription of whole songs (section INFERENCE)."""

    overlap: float = 0.0
    """Share of a window that the next one hears again. Sequences are weakest at their ends: with an overlap
    each window is believed in its middle only. 0.5 doubles the time."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.overlap <= MAX_OVERLAP:
            raise ValueError(f"--overlap must lie in 0 to {MAX_OVERLAP}, is {self.overlap:g}")
