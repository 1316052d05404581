"""How good a transcription is: note, frame and melody scores as mir_eval counts them, and their means."""

from .accumulator import MetricSums
from .bootstrap import PairedDifference, bootstrap_interval, bootstrap_pooled_interval, paired_bootstrap
from .counts import FileCounts, MelodyScore, NoteScore
from .errors import NoteErrors, add_errors, note_errors
from .frames import frame_counts
from .melody import melody_classes, melody_counts
from .pairing import Tolerances, note_prf
from .repair import repair_notes
from .scores import drum_classes, program_classes, score_keys, score_notes
from .scoring import HEADLINE_KEYS, Scoring
from .shift import ShiftScore, ShiftSums, best_shift, scan_shifts
from .summary import Metric, SongScores, compare_songs, metric_table

__all__ = [
    "HEADLINE_KEYS",
    "FileCounts",
    "MelodyScore",
    "Metric",
    "MetricSums",
    "NoteErrors",
    "NoteScore",
    "PairedDifference",
    "Scoring",
    "ShiftScore",
    "ShiftSums",
    "SongScores",
    "Tolerances",
    "add_errors",
    "best_shift",
    "bootstrap_interval",
    "bootstrap_pooled_interval",
    "compare_songs",
    "drum_classes",
    "frame_counts",
    "melody_classes",
    "melody_counts",
    "metric_table",
    "note_errors",
    "note_prf",
    "paired_bootstrap",
    "program_classes",
    "repair_notes",
    "scan_shifts",
    "score_keys",
    "score_notes",
]
