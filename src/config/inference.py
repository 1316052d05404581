"""How songs are transcribed."""

from __future__ import annotations

from dataclasses import dataclass

MAX_OVERLAP = 0.9
DECODE_PRECISIONS = ("auto", "32", "bf16", "int8")
"""Number formats of the decoder when it writes tokens; auto is bf16 on a GPU and 32 on a CPU."""


@dataclass(frozen=True)
class InferenceConfig:
    """Transcription of whole songs (section INFERENCE)."""

    overlap: float = 0.0
    """Share of a window that the next one hears again. Sequences are weakest at their ends: with an overlap
    each window is believed in its middle only. 0.5 doubles the time."""

    pitch_check: float = 0.0
    """Above 0 a sung note takes the pitch that the frame head finds likelier by more than this (natural log,
    mean over the note's first frames). Needs the frame head's group ``voice``; 0 is off."""

    def __post_init__(self) -> None:
        if self.pitch_check < 0:
            raise ValueError(f"--pitch-check must not be negative, is {self.pitch_check:g}")
        if not 0.0 <= self.overlap <= MAX_OVERLAP:
            raise ValueError(f"--overlap must lie in 0 to {MAX_OVERLAP}, is {self.overlap:g}")
