"""What a sampled sequence is worth: 0 to 1, and 1 for the label itself.

Each row (a segment's channel) is read alone. Note rewards read sample and label with the one decoder state
machine, so what crosses the window's edge is treated alike in both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..config.rl import RL_REWARDS
from ..evaluation.counts import NoteScore
from ..evaluation.matching import IntArray
from ..evaluation.pairing import Tolerances, pair_notes, pitches
from ..notes.cleaning import clean_notes
from ..notes.note import NOTE_DTYPE, NoteArray, note_programs
from ..tokenizer import NoteTokenizer
from ..tokenizer.decoding import ChannelDecoder

_TOLERANCES = Tolerances()


class Reward:
    """One of :data:`~amt.config.rl.RL_REWARDS`.

    ``token_acc``: share of places with the same token, of the longer of the two sequences.
    ``onset_f``: F-measure of the onsets in the window; ties are no onsets.
    ``note_f``: F-measure of onsets with offsets; a tied note begins with the window, and a note that sounds
    on at its end agrees only with one that does too.

    A note agrees when pitch, instrument (as the task's tokens say it) and time do, within the tolerances of
    :mod:`amt.evaluation`. Where the label has no note, no note is worth 1 and any note 0.
    """

    def __init__(self, name: str, tokenizer: NoteTokenizer) -> None:
        assert name in RL_REWARDS
        self.name = name
        self._tokenizer = tokenizer

    def __call__(
        self,
        samples: Sequence[Sequence[int]],
        labels: Sequence[Sequence[int]],
        octave_free: Sequence[bool] | None = None,
    ) -> list[float]:
        """The reward of each sample.

        Args:
            samples: token ids without padding, EOS included where it was reached; no task tokens.
            labels: the same of the reference, one for each sample.
            octave_free: where True, pitch classes are compared (the label's octave is not known).
        """
        free = [False] * len(samples) if octave_free is None else octave_free
        known: dict[tuple[tuple[int, ...], tuple[int, ...], bool], float] = {}
        notes: dict[tuple[int, ...], NoteArray] = {}
        rewards = []
        for sample, label, folded in zip(samples, labels, free, strict=True):
            key = (tuple(sample), tuple(label), bool(folded))
            if key not in known:
                if self.name == "token_acc":
                    known[key] = token_accuracy(*(self._folded(row) if folded else row for row in key[:2]))
                else:
                    for row in key[:2]:
                        if row not in notes:
                            notes[row] = self._notes(row)
                    known[key] = note_f_measure(
                        notes[key[1]],
                        notes[key[0]],
                        with_offset=self.name == "note_f",
                        octave_free=key[2],
                    )
            rewards.append(known[key])
        return rewards

    def _folded(self, row: Sequence[int]) -> list[int]:
        """The tokens with every pitch in the lowest octave."""
        pitches = self._tokenizer.token_range("pitch")
        return [pitches.start + (token - pitches.start) % 12 if token in pitches else token for token in row]

    def _notes(self, row: Sequence[int]) -> NoteArray:
        decoder = ChannelDecoder(self._tokenizer.layout, start_from_ties=self.name == "note_f")
        decoder.read_window(row, 0.0)
        decoder.finish()
        return clean_notes(np.array(decoder.notes, dtype=NOTE_DTYPE))


def token_accuracy(sample: Sequence[int], label: Sequence[int]) -> float:
    """Equal tokens at equal places over the longer length; 1 for two empty sequences."""
    length = max(len(sample), len(label))
    if not length:
        return 1.0
    return sum(one == other for one, other in zip(sample, label, strict=False)) / length


def note_f_measure(
    reference: NoteArray, estimate: NoteArray, *, with_offset: bool, octave_free: bool = False
) -> float:
    """F-measure of notes of equal pitch, program and drum flag; 1 when both are empty."""
    if not len(reference) or not len(estimate):
        return float(len(reference) == len(estimate))
    matched = pair_notes(
        reference,
        estimate,
        _groups(reference, octave_free),
        _groups(estimate, octave_free),
        _TOLERANCES,
        with_offset=with_offset,
    )
    return NoteScore(int((matched >= 0).sum()), len(reference), len(estimate)).f


def _groups(notes: NoteArray, octave_free: bool) -> IntArray:
    """Notes of one group may agree."""
    pitch = pitches(notes)
    if octave_free:
        pitch = np.where(notes["is_drum"], pitch, pitch % 12)
    groups: IntArray = note_programs(notes).astype(np.int64) * 128 + pitch
    return groups
