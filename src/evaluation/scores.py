"""Scores of one transcription against its reference.

Conventions of the published YourMT3 evaluation: pitched and drum notes apart; the headline scores ignore
the instrument; a reference without notes gives NaN (the file is left out of averages), a reference with
notes and an empty estimate gives 0. The ``*_strict`` keys differ in one case only: notes found where the
reference has none give 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..notes.note import Note, NoteArray, notes_to_array
from .matching import OFFSET_MIN_TOLERANCE, OFFSET_RATIO, ONSET_TOLERANCE, IntArray, match_notes

MIN_LENGTH = 0.01
"""Length in seconds that a note without one gets before scoring."""
LATEST_TIME = 1e6
"""Seconds beyond which a time is damage; the matching is exact up to here."""
STRICT = "_strict"
"""Ending of the keys that count false positives on empty references."""

Notes = Iterable[Note] | NoteArray
Vocabulary = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class NoteScore:
    """Agreement of two sets of notes, as counts; the scores are derived."""

    num_matched: int
    num_reference: int
    num_estimate: int

    @property
    def precision(self) -> float:
        """Share of the estimated notes that are right; NaN without estimated notes."""
        return self.num_matched / self.num_estimate if self.num_estimate else float("nan")

    @property
    def recall(self) -> float:
        """Share of the reference notes that were found; NaN without reference notes."""
        return self.num_matched / self.num_reference if self.num_reference else float("nan")

    @property
    def f(self) -> float:
        """F-measure; NaN without reference notes (published convention), 0 with an empty estimate."""
        if not self.num_reference:
            return float("nan")
        return 2.0 * self.num_matched / (self.num_reference + self.num_estimate)

    @property
    def f_strict(self) -> float:
        """F-measure that is 0 for notes found where the reference has none; NaN when both are empty."""
        return 0.0 if not self.num_reference and self.num_estimate else self.f

    def __add__(self, other: NoteScore) -> NoteScore:
        """The counts of two files pooled (micro average)."""
        return NoteScore(
            self.num_matched + other.num_matched,
            self.num_reference + other.num_reference,
            self.num_estimate + other.num_estimate,
        )


def repair_notes(notes: Notes) -> NoteArray:
    """Notes that can be scored: sane times, onset not negative, offset after the onset.

    A note with a time that is not finite or beyond 10^6 s, or a pitch outside 0 to 127, is dropped; a
    negative onset becomes 0; a note that ends before or where it starts gets ``MIN_LENGTH`` seconds.
    Order is kept.
    """
    given = notes_to_array(notes)
    ok = (np.abs(given["onset"]) <= LATEST_TIME) & (np.abs(given["offset"]) <= LATEST_TIME)
    ok &= (given["pitch"] >= 0) & (given["pitch"] <= 127)
    array: NoteArray = given[ok]
    array["onset"] = np.maximum(array["onset"], 0.0)
    bad = array["offset"] <= array["onset"]
    array["offset"][bad] = array["onset"][bad] + MIN_LENGTH
    return array


def note_prf(
    reference: Notes,
    estimate: Notes,
    *,
    with_offset: bool = False,
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
) -> NoteScore:
    """Counts, precision, recall and F-measure of two sets of notes, whatever their programs.

    Drum flags are ignored: pass what should be compared. Pitches must be equal, onsets within
    ``onset_tolerance`` seconds and, with ``with_offset``, offsets within
    ``max(offset_min_tolerance, offset_ratio * reference length)``.
    """
    ref, est = repair_notes(reference), repair_notes(estimate)
    matched = _match(
        ref, est, _pitch(ref), _pitch(est), with_offset, onset_tolerance, offset_ratio, offset_min_tolerance
    )
    return NoteScore(int((matched >= 0).sum()), len(ref), len(est))


def matched_notes(
    reference: Notes, estimate: Notes, *, with_offset: bool = False, onset_tolerance: float = ONSET_TOLERANCE
) -> IntArray:
    """Index of the estimated note matched to each reference note, or -1 (pitch and onset agree).

    Both must be notes that :func:`repair_notes` leaves as they are, so that indices mean the same.
    """
    ref, est = notes_to_array(reference), notes_to_array(estimate)
    return _match(
        ref, est, _pitch(ref), _pitch(est), with_offset, onset_tolerance, OFFSET_RATIO, OFFSET_MIN_TOLERANCE
    )


def score_notes(
    reference: Notes,
    estimate: Notes,
    vocab: Vocabulary | None = None,
    drum_vocab: Vocabulary | None = None,
    *,
    pitch_class: Sequence[str] = (),
    strict: bool = True,
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
) -> dict[str, float]:
    """All scores of one file, under the keys of the logs without their prefix.

    Args:
        reference: what is there, ``Note`` objects or a note array; repaired first, so never raises for
            zero-length or negative notes.
        estimate: what was found.
        vocab: classes to score apart, name to programs; ``None`` scores no class.
        drum_vocab: classes of drum pitches; hits outside are left out, pitches of one class are equal.
            ``None`` compares drum pitches as they are.
        pitch_class: classes of ``vocab`` that also get octave-free scores (keys ``..._{class}_pc``).
        strict: also give the ``*_strict`` keys.
        onset_tolerance, offset_ratio, offset_min_tolerance: seconds, share, seconds.

    Returns:
        ``onset_f``, ``offset_f``, ``onset_f_drum``, ``onset_f_{class}``, ``offset_f_{class}`` and the same
        with ``_strict``. The keys depend on the arguments only (:func:`score_keys`), never on the notes.
    """
    counts = score_counts(
        reference,
        estimate,
        vocab,
        drum_vocab,
        pitch_class=pitch_class,
        onset_tolerance=onset_tolerance,
        offset_ratio=offset_ratio,
        offset_min_tolerance=offset_min_tolerance,
    )
    scores = {key: count.f for key, count in counts.items()}
    if strict:
        scores |= {key + STRICT: count.f_strict for key, count in counts.items()}
    return scores


def score_keys(
    vocab: Vocabulary | None = None, *, pitch_class: Sequence[str] = (), strict: bool = True
) -> list[str]:
    """The keys :func:`score_notes` gives for these arguments, in its order."""
    keys = ["onset_f", "offset_f", "onset_f_drum"]
    for name in vocab or ():
        keys += [f"onset_f_{name}", f"offset_f_{name}"]
    for name in pitch_class:
        keys += [f"onset_f_{name}_pc", f"offset_f_{name}_pc"]
    return keys + [key + STRICT for key in keys] if strict else keys


def score_counts(
    reference: Notes,
    estimate: Notes,
    vocab: Vocabulary | None = None,
    drum_vocab: Vocabulary | None = None,
    *,
    pitch_class: Sequence[str] = (),
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
) -> dict[str, NoteScore]:
    """The counts behind :func:`score_notes`, one per key without ``_strict``; they add up over files."""
    ref, est = repair_notes(reference), repair_notes(estimate)
    ref_drum, est_drum = _drum_hits(ref, drum_vocab), _drum_hits(est, drum_vocab)
    ref, est = ref[~ref["is_drum"]], est[~est["is_drum"]]
    tolerances = (onset_tolerance, offset_ratio, offset_min_tolerance)
    drums = _match(ref_drum, est_drum, _pitch(ref_drum), _pitch(est_drum), False, *tolerances)
    counts: dict[str, NoteScore] = {}
    for key, with_offset in (("onset_f", False), ("offset_f", True)):
        matched = _match(ref, est, _pitch(ref), _pitch(est), with_offset, *tolerances)
        counts[key] = NoteScore(int((matched >= 0).sum()), len(ref), len(est))
    counts["onset_f_drum"] = NoteScore(int((drums >= 0).sum()), len(ref_drum), len(est_drum))
    vocab = vocab or {}
    for name in pitch_class:
        if name not in vocab:
            raise ValueError(f"pitch_class names {name!r}, which is no class of the vocabulary {list(vocab)}")
    for names, octave_free in ((list(vocab), False), (list(pitch_class), True)):
        if names:
            part = {name: vocab[name] for name in names}
            counts |= _class_counts(ref, est, part, octave_free, tolerances)
    return counts


def _class_counts(
    ref: NoteArray,
    est: NoteArray,
    vocab: Vocabulary,
    octave_free: bool,
    tolerances: tuple[float, float, float],
) -> dict[str, NoteScore]:
    """Counts of every class, all classes in one matching."""
    member = np.zeros((len(vocab), 256), dtype=bool)
    for row, programs in enumerate(vocab.values()):
        member[row, list(programs)] = True
    ref_class, ref_row = np.nonzero(member[:, np.clip(ref["program"], -1, 255)])
    est_class, est_row = np.nonzero(member[:, np.clip(est["program"], -1, 255)])
    ref, est = ref[ref_row], est[est_row]
    ref_pitch, est_pitch = _pitch(ref), _pitch(est)
    if octave_free:
        ref_pitch, est_pitch = ref_pitch % 12, est_pitch % 12
    num_ref = np.bincount(ref_class, minlength=len(vocab))
    num_est = np.bincount(est_class, minlength=len(vocab))
    ending = "_pc" if octave_free else ""
    hits: dict[bool, npt.NDArray[np.int64]] = {}
    for with_offset in (False, True):
        matched = _match(
            ref, est, ref_class * 128 + ref_pitch, est_class * 128 + est_pitch, with_offset, *tolerances
        )
        hits[with_offset] = np.bincount(ref_class[matched >= 0], minlength=len(vocab))
    counts: dict[str, NoteScore] = {}
    for row, name in enumerate(vocab):
        for kind, with_offset in (("onset_f", False), ("offset_f", True)):
            counts[f"{kind}_{name}{ending}"] = NoteScore(
                int(hits[with_offset][row]), int(num_ref[row]), int(num_est[row])
            )
    return counts


def _drum_hits(array: NoteArray, drum_vocab: Vocabulary | None) -> NoteArray:
    drums: NoteArray = array[array["is_drum"]]
    if drum_vocab is None:
        return drums
    table = np.full(128, -1, dtype=np.int16)
    for pitches in drum_vocab.values():
        table[list(pitches)] = pitches[0]
    drums["pitch"] = table[drums["pitch"]]
    known: NoteArray = drums[drums["pitch"] >= 0]
    return known


def _pitch(array: NoteArray) -> IntArray:
    pitch: IntArray = array["pitch"].astype(np.int64)
    return pitch


def _match(
    ref: NoteArray,
    est: NoteArray,
    ref_group: IntArray,
    est_group: IntArray,
    with_offset: bool,
    onset_tolerance: float,
    offset_ratio: float,
    offset_min_tolerance: float,
) -> IntArray:
    return match_notes(
        ref_group,
        np.ascontiguousarray(ref["onset"]),
        np.ascontiguousarray(ref["offset"]),
        est_group,
        np.ascontiguousarray(est["onset"]),
        np.ascontiguousarray(est["offset"]),
        onset_tolerance=onset_tolerance,
        offset_ratio=offset_ratio if with_offset else None,
        offset_min_tolerance=offset_min_tolerance,
    )
