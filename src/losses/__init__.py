"""What training minimises: token cross-entropy, auxiliary terms over tokens, frame-head terms, their sum."""

from .blank import blank_loss
from .boundary import boundary_loss
from .chroma import chroma_loss
from .frame import NoteColumns, frame_loss
from .masking import LabelMask
from .objective import Objective, Term
from .octave import octave_loss, without_octaves
from .onset import onset_loss
from .scores import float_scores, log_totals, within
from .token_ce import token_cross_entropy

__all__ = [
    "LabelMask",
    "NoteColumns",
    "Objective",
    "Term",
    "blank_loss",
    "boundary_loss",
    "chroma_loss",
    "float_scores",
    "frame_loss",
    "log_totals",
    "octave_loss",
    "onset_loss",
    "token_cross_entropy",
    "within",
    "without_octaves",
]
