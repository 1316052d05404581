"""How good a transcription is: note scores as mir_eval counts them, and their means."""

from .accumulator import MetricSums
from .bootstrap import bootstrap_interval
from .scores import NoteScore, matched_notes, note_prf, repair_notes, score_counts, score_keys, score_notes

__all__ = [
    "MetricSums",
    "NoteScore",
    "bootstrap_interval",
    "matched_notes",
    "note_prf",
    "repair_notes",
    "score_counts",
    "score_keys",
    "score_notes",
]
