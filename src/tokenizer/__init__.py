"""Notes to tokens and back."""

from .decoding import TokenErrors
from .encoding import PreparedNotes
from .note_tokenizer import DecodeResult, NoteTokenizer

__all__ = ["DecodeResult", "NoteTokenizer", "PreparedNotes", "TokenErrors"]
