"""What is scored of a file: the counts of every score, from a reference and an estimate.

Pitched and drum notes are scored apart; the headline scores ignore the instrument; the conventions for
empty references stand in :mod:`~.counts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..notes.note import NOTE_DTYPE, NoteArray
from .counts import FileCounts, MelodyScore, NoteScore
from .frames import FRAME_HOP, frame_counts
from .matching import IntArray
from .melody import MELODY_HOP, melody_classes, melody_counts
from .pairing import Tolerances, pair_notes, pitches
from .repair import LATEST_TIME, Notes, repair_notes

Vocabulary = Mapping[str, Sequence[int]]
HEADLINE_KEYS = ("onset_f", "offset_f", "onset_f_drum", "frame_f", "frame_f_pc", "multi_f")
"""The keys that stand for a whole file; ``multi_f`` needs classes."""


@dataclass(frozen=True)
class Scoring:
    """What is scored: the classes and tolerances of an evaluation set. Keys depend on it, never on notes."""

    vocab: Vocabulary = field(default_factory=dict)
    """Classes scored apart, name to programs; empty scores no class."""
    drum_vocab: Vocabulary | None = None
    """Classes of drum pitches; hits outside are left out, pitches of one class are equal. None compares
    drum pitches as they are."""
    pitch_class: tuple[str, ...] = ()
    """Classes of ``vocab`` that also get octave-free note scores, keys ``..._{class}_pc``."""
    melody: tuple[str, ...] | None = None
    """Classes of ``vocab`` that also get melody scores; None: its lead voices."""
    tolerances: Tolerances = field(default_factory=Tolerances)
    """How far two notes that agree may be apart."""
    frame_hop: float = FRAME_HOP
    """Seconds per frame of ``frame_f`` and ``frame_f_pc``."""
    melody_hop: float = MELODY_HOP
    """Seconds between the instants of the melody scores."""

    def __post_init__(self) -> None:
        if self.melody is None:
            object.__setattr__(self, "melody", melody_classes(self.vocab))
        for option in ("pitch_class", "melody"):
            for name in getattr(self, option):
                if name not in self.vocab:
                    raise ValueError(
                        f"{option} names {name!r}, which is no class of the vocabulary {list(self.vocab)}"
                    )
        for option in ("frame_hop", "melody_hop"):
            if not 1e-4 <= getattr(self, option) < float("inf"):
                raise ValueError(f"{option} must be at least 0.0001 seconds, not {getattr(self, option)}")

    def keys(self, *, strict: bool = True) -> list[str]:
        """The keys of the scores, in order."""
        nothing = np.zeros(0, NOTE_DTYPE)
        return list(self.counts(nothing, nothing).scores(strict=strict))

    def counts(self, reference: Notes, estimate: Notes, *, duration: float | None = None) -> FileCounts:
        """All counts of one file.

        Args:
            reference: what is there, ``Note`` objects or a note array; repaired first, so never raises for
                zero-length or negative notes.
            estimate: what was found.
            duration: seconds of audio, see :func:`~.melody.melody_counts`.
        """
        if duration is not None and not 0.0 <= duration <= LATEST_TIME:
            raise ValueError(f"duration must lie between 0 and {LATEST_TIME:.0f} seconds, not {duration}")
        ref, est = repair_notes(reference), repair_notes(estimate)
        drums = self._drum_score(ref[ref["is_drum"]], est[est["is_drum"]])
        ref, est = ref[~ref["is_drum"]], est[~est["is_drum"]]
        one_class = np.zeros(len(ref), dtype=np.int64), np.zeros(len(est), dtype=np.int64)
        onset, offset = self._score(ref, est, *one_class, 1)[0]
        notes = {"onset_f": onset, "offset_f": offset, "onset_f_drum": drums}
        notes["frame_f"], notes["frame_f_pc"] = frame_counts(ref, est, hop=self.frame_hop)
        if self.vocab:
            notes["multi_f"] = self._multi_score(ref, est) + drums
            notes |= self._class_scores(ref, est, self.vocab, octave_free=False)
        if self.pitch_class:
            part = {name: self.vocab[name] for name in self.pitch_class}
            notes |= self._class_scores(ref, est, part, octave_free=True)
        return FileCounts(notes, self._melodies(ref, est, duration))

    def _drum_score(self, ref: NoteArray, est: NoteArray) -> NoteScore:
        """Onsets of drum hits."""
        ref, est = drum_hits(ref, self.drum_vocab), drum_hits(est, self.drum_vocab)
        matched = pair_notes(ref, est, pitches(ref), pitches(est), self.tolerances, with_offset=False)
        return NoteScore(int((matched >= 0).sum()), len(ref), len(est))

    def _multi_score(self, ref: NoteArray, est: NoteArray) -> NoteScore:
        """Notes of all classes with offsets, where also the class must agree. A program of several classes
        belongs to the first; notes of no class are left out."""
        ref_class, est_class = first_class(ref, self.vocab), first_class(est, self.vocab)
        ref, ref_class = ref[ref_class >= 0], ref_class[ref_class >= 0]
        est, est_class = est[est_class >= 0], est_class[est_class >= 0]
        groups = ref_class * 128 + pitches(ref), est_class * 128 + pitches(est)
        matched = pair_notes(ref, est, *groups, self.tolerances, with_offset=True)
        return NoteScore(int((matched >= 0).sum()), len(ref), len(est))

    def _class_scores(
        self, ref: NoteArray, est: NoteArray, vocab: Vocabulary, *, octave_free: bool
    ) -> dict[str, NoteScore]:
        """Scores of every class, all classes in one matching."""
        member = _membership(vocab)
        ref_class, ref_row = np.nonzero(member[:, _column(ref)])
        est_class, est_row = np.nonzero(member[:, _column(est)])
        ref, est = ref[ref_row], est[est_row]
        if octave_free:
            ref["pitch"] %= 12
            est["pitch"] %= 12
        pairs = self._score(ref, est, ref_class, est_class, len(vocab))
        ending = "_pc" if octave_free else ""
        scores: dict[str, NoteScore] = {}
        for name, (onset, offset) in zip(vocab, pairs, strict=True):
            scores |= {f"onset_f_{name}{ending}": onset, f"offset_f_{name}{ending}": offset}
        return scores

    def _score(
        self, ref: NoteArray, est: NoteArray, ref_class: IntArray, est_class: IntArray, num_classes: int
    ) -> list[tuple[NoteScore, NoteScore]]:
        """Onset score and onset-offset score of each class."""
        groups = ref_class * 128 + pitches(ref), est_class * 128 + pitches(est)
        num_ref = np.bincount(ref_class, minlength=num_classes)
        num_est = np.bincount(est_class, minlength=num_classes)
        columns = []
        for with_offset in (False, True):
            matched = pair_notes(ref, est, *groups, self.tolerances, with_offset=with_offset)
            hits = np.bincount(ref_class[matched >= 0], minlength=num_classes)
            columns.append([NoteScore(*row) for row in np.stack([hits, num_ref, num_est], axis=1).tolist()])
        return list(zip(*columns, strict=True))

    def _melodies(self, ref: NoteArray, est: NoteArray, duration: float | None) -> dict[str, MelodyScore]:
        scores = {}
        for name in self.melody or ():
            row = _membership({name: self.vocab[name]})[0]
            scores[name] = melody_counts(
                ref[row[_column(ref)]], est[row[_column(est)]], hop=self.melody_hop, duration=duration
            )
        return scores


def drum_hits(notes: NoteArray, drum_vocab: Vocabulary | None) -> NoteArray:
    """Drum notes as they are compared: with the first pitch of their class, those of no class left out.

    Without classes they are compared as they are.
    """
    if drum_vocab is None:
        return notes
    table = np.full(128, -1, dtype=np.int16)
    for members in drum_vocab.values():
        table[list(members)] = members[0]
    hits = notes.copy()
    hits["pitch"] = table[hits["pitch"]]
    known: NoteArray = hits[hits["pitch"] >= 0]
    return known


def first_class(notes: NoteArray, vocab: Vocabulary) -> IntArray:
    """Number of the first class a note's program is in, -1 for none."""
    member = _membership(vocab)
    if not len(member):
        return np.full(len(notes), -1, dtype=np.int64)
    number: IntArray = np.where(member.any(axis=0), member.argmax(axis=0), -1)[_column(notes)]
    return number


def _membership(vocab: Vocabulary) -> npt.NDArray[np.bool_]:
    """(classes, 256): which programs a class has; the last column stands for all others."""
    member = np.zeros((len(vocab), 256), dtype=bool)
    for row, programs in enumerate(vocab.values()):
        member[row, list(programs)] = True
    return member


def _column(notes: NoteArray) -> IntArray:
    column: IntArray = np.clip(notes["program"], -1, 255).astype(np.int64)
    return column
