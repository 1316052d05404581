"""Notes of a song as its windows are decoded: what is final is given at once, the rest is held.

The union of what is given equals decoding and cleaning all windows together, in memory that does not grow
with the length of the song.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ..notes.cleaning import MINIMUM_SECONDS, clean_notes
from ..notes.note import NOTE_DTYPE, Note, array_to_notes
from ..tokenizer import NoteTokenizer
from ..tokenizer.decoding import SEAM_SECONDS, NoteRow
from .pitch_check import PitchEvidence, is_sung, is_voice, join_notes
from .windows import Windows


class Stitcher:
    """Takes the windows of one song in order and gives its notes.

    Args:
        tokenizer: of the network.
        windows: of the song.
        start_from_ties: see :meth:`~..tokenizer.NoteTokenizer.decode`.
        evidence: the frame head's opinion on the song; None asks for none.
        margin: how much likelier another pitch must be, see :meth:`~.pitch_check.PitchEvidence.correct`.
        shortest: seconds; pitched notes that are shorter are left out.
    """

    def __init__(
        self,
        tokenizer: NoteTokenizer,
        windows: Windows,
        *,
        start_from_ties: bool = False,
        evidence: PitchEvidence | None = None,
        margin: float = 0.0,
        shortest: float = 0.0,
    ) -> None:
        self._sample_rate = rate = tokenizer.sample_rate
        self._starts: list[float] = (windows.starts() / rate).tolist()
        self._seams: list[float] | None = None
        if windows.hop < tokenizer.segment_samples:
            self._seams = (windows.seams(tokenizer.segment_samples) / rate).tolist()
        self.duration = windows.length / rate
        self.evidence = evidence
        self._margin, self._shortest = margin, shortest
        self._decoder = tokenizer.song_decoder(start_from_ties)
        self.num_tokens = 0
        """Of all windows so far."""
        self._next = 0
        self._held: list[NoteRow] = []
        self._sung: list[Note] = []
        """Sung notes at the pitch the frame head hears, which those to come may still change."""

    @property
    def errors(self) -> Counter[str]:
        """Malformed tokens so far, by kind."""
        return self._decoder.errors

    @property
    def is_complete(self) -> bool:
        """Whether the last window was added."""
        return self._next == len(self._starts)

    def add(self, rows: Sequence[Sequence[int]]) -> list[Note]:
        """The tokens of the next window by channel; the notes that nothing can change any more, by onset.

        Evidence on this window must have been added; evidence on later ones may be there or come.
        """
        number = self._next
        self._next += 1
        self.num_tokens += sum(map(len, rows))
        self._decoder.read_window(rows, self._starts[number], self._region(number))
        if self.is_complete:
            self._decoder.finish()
        self._held += self._decoder.take_rows()
        notes = self._finish(self._take_final())
        if self.evidence is not None and not self.is_complete:
            open_onsets = (*(row[0] for row in self._held), *self._decoder.sounding().values())
            oldest = min((*open_onsets, self._starts[self._next] - SEAM_SECONDS))
            self.evidence.forget(max(0, math.floor(oldest * self._sample_rate)))
        return notes

    def _region(self, number: int) -> tuple[float, float] | None:
        if self._seams is None:
            return None
        edges = self._seams[number : number + 2]
        return edges[0], edges[1] if len(edges) > 1 else math.inf

    def _take_final(self) -> list[NoteRow]:
        """Of each pitch of an instrument all notes, when those to come start after the end of them.

        Only notes of one pitch and instrument end each other (:func:`~..notes.cleaning.clean_notes`). Those
        to come are the sounding ones and the ones of the next windows.
        """
        if self.is_complete:
            final, self._held = self._held, []
            return final
        future = self._future()
        sounding = self._decoder.sounding()
        ends: dict[tuple[int, int, bool], float] = {}
        for onset, offset, pitch, program, _, is_drum in self._held:
            key = program, pitch, is_drum
            ends[key] = max(offset, onset + MINIMUM_SECONDS, ends.get(key, 0.0))
        open_keys = {
            key
            for key, end in ends.items()
            if end > min(future, math.inf if key[2] else sounding.get(key[:2], math.inf))
        }
        final = [row for row in self._held if (row[3], row[2], row[5]) not in open_keys]
        self._held = [row for row in self._held if (row[3], row[2], row[5]) in open_keys]
        return final

    def _future(self) -> float:
        """Seconds before which the windows to come begin no note."""
        if self.is_complete:
            return math.inf
        seams = self._starts if self._seams is None else self._seams
        return min(seams[self._next] - SEAM_SECONDS, self._starts[self._next])

    def _join(self, notes: Sequence[Note]) -> list[Note]:
        """Sung notes as :func:`~.pitch_check.join_notes` gives them, when they are final, and all others."""
        held = (row[0] for row in self._held if is_voice(row[3]))
        sounding = (onset for key, onset in self._decoder.sounding().items() if is_voice(key[0]))
        self._sung += filter(is_sung, notes)
        joined, self._sung = join_notes(self._sung, min((self._future(), *held, *sounding)))
        return [*joined, *(note for note in notes if not is_sung(note))]

    def _finish(self, rows: Iterable[NoteRow]) -> list[Note]:
        """Cleaned, at the pitch the frame head hears, within the sound, long enough; sorted."""
        notes = array_to_notes(clean_notes(np.array(list(rows), dtype=NOTE_DTYPE)))
        if self.evidence is not None:
            notes = self._join(self.evidence.correct(notes, self._margin, self._sample_rate))
        return sorted(note for note in map(self._within, notes) if note is not None)

    def _within(self, note: Note) -> Note | None:
        """A note that starts while there is sound, ended at its end (the last window is padded)."""
        if note.onset >= self.duration:
            return None
        if note.offset > self.duration and not note.is_drum:
            note = note._replace(offset=self.duration)
        return note if lasts(note, self._shortest) else None


def lasts(note: Note, shortest: float) -> bool:
    """Whether a note is at least ``shortest`` seconds long; drums have no length and stay."""
    return note.is_drum or note.offset - note.onset >= shortest - 1e-9
