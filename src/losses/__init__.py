"""What training minimises: token cross-entropy, frame-head terms, and their weighted sum."""

from .frame import NoteColumns, frame_loss
from .masking import LabelMask
from .objective import Objective, Term
from .token_ce import token_cross_entropy

__all__ = ["LabelMask", "NoteColumns", "Objective", "Term", "frame_loss", "token_cross_entropy"]
