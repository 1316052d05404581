"""Where the notes went: right, of the wrong instrument, an octave off, late, missed, or invented.

Every reference note and every estimated note is counted once. Notes are paired in rounds, each with what the
rounds before left over, and always as many as possible:

1. *right*: onset, pitch and instrument class agree;
2. *wrong_instrument*: onset and pitch agree;
3. *octave*: the onset agrees, and the pitch but for octaves;
4. *timing*: the pitch agrees, and the onset is at most ``TIMING_SPAN`` away;
5. *pitch*: only the onset agrees.

What is left is *missed* on one side and *extra* on the other. Drum hits are counted apart, by drum class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..config.vocabularies import DRUM_CLASS
from ..notes.note import NoteArray
from .counts import divide
from .matching import FloatArray, IntArray
from .pairing import Tolerances, pair_notes, pitches
from .repair import Notes, repair_notes
from .scoring import Scoring, Vocabulary, drum_hits, first_class

ROUNDS = ("right", "wrong_instrument", "octave", "timing", "pitch")
"""Kinds of pairs, in the order in which they are looked for."""
KINDS = (*ROUNDS, "missed", "extra")
TIMING_SPAN = 0.2
"""Seconds up to which an onset counts as early or late instead of missed."""
BIN_SECONDS = 0.01
OTHER_CLASS = "Other"
"""Name of the notes of no class in the table of confusions."""
_DECIMALS = 4
# As mir_eval rounds distances before it compares them.


@dataclass(frozen=True)
class NoteErrors:
    """Counts of one file, or of several files added up."""

    counts: dict[str, int]
    """Pairs of each kind of ``ROUNDS``, ``missed`` reference notes and ``extra`` estimated ones."""
    wrong_end: int
    """Pairs of the first two kinds whose offset is out of tolerance."""
    drums: dict[str, int]
    """``right``, ``missed`` and ``extra`` drum hits."""
    classes: tuple[str, ...]
    """Names of the rows and columns of ``confusion`` but the last: the classes, ``Other``, ``Drums``."""
    confusion: IntArray
    """(classes + 1, classes + 1) notes by reference class and estimated class, of the pairs whose onset and
    pitch agree; the last column holds notes that were not found, the last row those that are not there."""
    deviations: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Estimated minus true onset in seconds of the pairs with equal pitch, ``timing`` ones included."""
    present: tuple[int, int, int] = (0, 0, 0)
    """Classes (drums included) with notes in the reference, in the estimate, in both; summed over files."""

    @property
    def num_reference(self) -> int:
        """Pitched notes of the reference."""
        return sum(self.counts[kind] for kind in (*ROUNDS, "missed"))

    @property
    def num_estimate(self) -> int:
        """Pitched notes of the estimate."""
        return sum(self.counts[kind] for kind in (*ROUNDS, "extra"))

    def leakage(self) -> dict[str, tuple[float, float]]:
        """For each class with notes the share of its reference notes that were written as another class
        (out), and the share of its estimated notes that belong to another class (in)."""
        inside = self.confusion[:-1, :-1]
        shares = {}
        for number, name in enumerate(self.classes):
            row, column = int(self.confusion[number].sum()), int(self.confusion[:, number].sum())
            if row or column:
                right = int(inside[number, number])
                out = int(inside[number].sum()) - right, row
                into = int(inside[:, number].sum()) - right, column
                shares[name] = divide(out), divide(into)
        return shares

    def histogram(self) -> tuple[list[float], list[int]]:
        """Centres in seconds, and counts, of bins of ``BIN_SECONDS`` from -``TIMING_SPAN`` to
        ``TIMING_SPAN``."""
        most = round(TIMING_SPAN / BIN_SECONDS)
        places = np.clip(np.rint(self.deviations / BIN_SECONDS), -most, most).astype(np.int64) + most
        counts: list[int] = np.bincount(places, minlength=2 * most + 1).tolist()
        return [round(k * BIN_SECONDS, 6) for k in range(-most, most + 1)], counts

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; NaN where there was nothing to divide by."""
        centres, counts = self.histogram()
        found = len(self.deviations) > 0
        reference, estimate, both = self.present
        return {
            **self.counts,
            "wrong_end": self.wrong_end,
            "drums": dict(self.drums),
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
            "leakage": {name: {"out": out, "in": into} for name, (out, into) in self.leakage().items()},
            "onset_deviation": {
                "bin_centres_ms": [round(1000 * centre, 3) for centre in centres],
                "counts": counts,
                "mean_ms": 1000 * float(self.deviations.mean()) if found else float("nan"),
                "median_ms": 1000 * float(np.median(self.deviations)) if found else float("nan"),
                "mean_abs_ms": 1000 * float(np.abs(self.deviations).mean()) if found else float("nan"),
            },
            "instruments": {"reference": reference, "estimate": estimate, "both": both},
        }


def note_errors(reference: Notes, estimate: Notes, scoring: Scoring) -> NoteErrors:
    """Count where the notes of one file went.

    Args:
        reference, estimate: as :meth:`~.scoring.Scoring.counts` takes them.
        scoring: classes, drum classes and tolerances.
    """
    ref, est = repair_notes(reference), repair_notes(estimate)
    drums = _drum_errors(ref[ref["is_drum"]], est[est["is_drum"]], scoring)
    ref, est = ref[~ref["is_drum"]], est[~est["is_drum"]]
    classes = (*scoring.vocab, OTHER_CLASS, DRUM_CLASS)
    rounds, free = _pair_in_rounds(ref, est, scoring.vocab, scoring.tolerances)
    confusion = np.zeros((len(classes) + 1, len(classes) + 1), dtype=np.int64)
    ref_class, est_class = _numbers(ref, scoring.vocab), _numbers(est, scoring.vocab)
    same_note = np.concatenate([rounds["right"], rounds["wrong_instrument"]], axis=1)
    np.add.at(confusion, (ref_class[same_note[0]], est_class[same_note[1]]), 1)
    confusion[:-1, -1] = _others(ref_class, same_note[0], len(classes))
    confusion[-1, :-1] = _others(est_class, same_note[1], len(classes))
    confusion[-2, -2] = drums["right"]
    confusion[-2, -1], confusion[-1, -2] = drums["missed"], drums["extra"]
    timed = np.concatenate([same_note, rounds["timing"]], axis=1)
    counts = {kind: rounds[kind].shape[1] for kind in ROUNDS}
    return NoteErrors(
        counts | {"missed": int(free[0].sum()), "extra": int(free[1].sum())},
        _count_wrong_ends(ref[same_note[0]], est[same_note[1]], scoring.tolerances),
        drums,
        classes,
        confusion,
        est["onset"][timed[1]] - ref["onset"][timed[0]],
        _present(confusion),
    )


def _pair_in_rounds(
    ref: NoteArray, est: NoteArray, vocab: Vocabulary, tolerances: Tolerances
) -> tuple[dict[str, IntArray], tuple[IntArray, IntArray]]:
    """For each round the pairs (2, n) as numbers of notes; and which notes (bool) are left on each side."""
    same = pitches(ref), pitches(est)
    by_class = _numbers(ref, vocab) * 128 + same[0], _numbers(est, vocab) * 128 + same[1]
    octave_free = same[0] % 12, same[1] % 12
    any_pitch = np.zeros_like(same[0]), np.zeros_like(same[1])
    late = Tolerances(max(TIMING_SPAN, tolerances.onset))
    groups = (by_class, same, octave_free, same, any_pitch)
    free = np.ones(len(ref), dtype=bool), np.ones(len(est), dtype=bool)
    rounds: dict[str, IntArray] = {}
    for kind, (ref_group, est_group) in zip(ROUNDS, groups, strict=True):
        left = np.flatnonzero(free[0]), np.flatnonzero(free[1])
        allowed = late if kind == "timing" else tolerances
        matched = pair_notes(
            ref[left[0]],
            est[left[1]],
            ref_group[left[0]],
            est_group[left[1]],
            allowed,
            with_offset=False,
        )
        hit = matched >= 0
        rounds[kind] = np.stack([left[0][hit], left[1][matched[hit]]])
        free[0][rounds[kind][0]] = False
        free[1][rounds[kind][1]] = False
    return rounds, free


def _drum_errors(ref: NoteArray, est: NoteArray, scoring: Scoring) -> dict[str, int]:
    ref, est = drum_hits(ref, scoring.drum_vocab), drum_hits(est, scoring.drum_vocab)
    matched = pair_notes(ref, est, pitches(ref), pitches(est), scoring.tolerances, with_offset=False)
    right = int((matched >= 0).sum())
    return {"right": right, "missed": len(ref) - right, "extra": len(est) - right}


def _numbers(notes: NoteArray, vocab: Vocabulary) -> IntArray:
    """Class of each note, ``len(vocab)`` for those of none."""
    number = first_class(notes, vocab)
    return np.where(number < 0, len(vocab), number)


def _others(classes: IntArray, paired: IntArray, num_classes: int) -> IntArray:
    """How many notes of each class are in no pair."""
    alone = np.ones(len(classes), dtype=bool)
    alone[paired] = False
    return np.bincount(classes[alone], minlength=num_classes)


def _count_wrong_ends(ref: NoteArray, est: NoteArray, tolerances: Tolerances) -> int:
    length = ref["offset"] - ref["onset"]
    allowed = np.maximum(tolerances.offset_min, tolerances.offset_ratio * length)
    apart = np.around(np.abs(est["offset"] - ref["offset"]), _DECIMALS)
    return int((apart > allowed).sum())


def _present(confusion: IntArray) -> tuple[int, int, int]:
    reference, estimate = confusion[:-1].sum(axis=1) > 0, confusion[:, :-1].sum(axis=0) > 0
    return int(reference.sum()), int(estimate.sum()), int((reference & estimate).sum())


def add_errors(errors: Sequence[NoteErrors]) -> NoteErrors:
    """The counts of several files, at least one, scored by the same classes."""
    first = errors[0]
    if any(item.classes != first.classes for item in errors):
        raise ValueError("only errors of the same classes add up: score all files with one vocabulary")
    reference, estimate, both = (
        sum(column) for column in zip(*(item.present for item in errors), strict=True)
    )
    return NoteErrors(
        {kind: sum(item.counts[kind] for item in errors) for kind in KINDS},
        sum(item.wrong_end for item in errors),
        {kind: sum(item.drums[kind] for item in errors) for kind in first.drums},
        first.classes,
        np.sum([item.confusion for item in errors], axis=0),
        np.concatenate([item.deviations for item in errors]),
        (reference, estimate, both),
    )
