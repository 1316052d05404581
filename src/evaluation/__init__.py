"""How good a transcription is: note, frame and melody scores as mir_eval counts them, and their means."""

from .accumulator import MetricSums
from .bootstrap import PairedDifference, bootstrap_interval, bootstrap_pooled_interval, paired_bootstrap
from .counts import FileCounts, MelodyScore, NoteScore
from .frames import frame_counts
from .melody import melody_classes, melody_counts
from .pairing import Tolerances, note_prf
from .repair import repair_notes
from .scores import drum_classes, program_classes, score_keys, score_notes
from .scoring import HEADLINE_KEYS, Scoring
from .shift import ShiftScore, best_shift, scan_shifts

__all__ = [
    "HEADLINE_KEYS",
    "FileCounts",
    "MelodyScore",
    "MetricSums",
    "NoteScore",
    "PairedDifference",
    "Scoring",
    "ShiftScore",
    "Tolerances",
    "best_shift",
    "bootstrap_interval",
    "bootstrap_pooled_interval",
    "drum_classes",
    "frame_counts",
    "melody_classes",
    "melody_counts",
    "note_prf",
    "paired_bootstrap",
    "program_classes",
    "repair_notes",
    "scan_shifts",
    "score_keys",
    "score_notes",
]
