"""Tokens to notes: one state machine for labels and predictions.

It reads any sequence. What it cannot use it counts under a name of :class:`TokenErrors` and goes on.
Ticks are steps of 10 ms since the start of the song.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ..config.audio import SHIFT_STEPS_PER_SECOND
from ..notes.cleaning import MINIMUM_SECONDS
from ..notes.note import DRUM_PROGRAM
from .vocabulary import EOS_ID, TokenLayout

NoteRow = tuple[float, float, int, int, int, bool]
"""Onset, offset, pitch, program, velocity, drum flag: a row of ``NOTE_DTYPE``."""


class TokenErrors:
    """Names under which a malformed sequence is counted (those of YourMT3+)."""

    MISSING_TIE = "Err/Missing tie"
    TIE_WITHOUT_PROGRAM = "Err/Missing prg in tie"
    SHIFT = "Err/Shift out of range"
    SECOND_TIE_AT_START = "Err/Multi-tie type 1"
    SECOND_TIE = "Err/Multi-tie type 2"
    WITHOUT_PROGRAM = "Err/Missing prg"
    WITHOUT_VELOCITY = "Err/Missing vel"
    OFF_WITHOUT_ON = "Err/Note off without note on"
    ONSET_NOT_FOUND = "Err/onset not found"
    UNTIED = "Err/merging segment tie"
    UNKNOWN = "Err/Unknown event"


SEAM_SECONDS = 0.05
"""Where two overlapping windows meet, onsets of one note this close are one onset."""

_SKIP, _PITCH, _SHIFT, _VELOCITY, _PROGRAM, _DRUM, _TIE, _UNKNOWN = range(8)


@functools.lru_cache(maxsize=8)
def _token_kinds(layout: TokenLayout) -> list[tuple[int, int]]:
    """Kind and value of each token id."""
    kinds = {"special": _SKIP, "extra": _SKIP, "shift": _SHIFT, "pitch": _PITCH, "velocity": _VELOCITY}
    kinds |= {"tie": _TIE, "program": _PROGRAM, "drum": _DRUM}
    return [(kind, value) for name, kind in kinds.items() for value in range(len(layout.token_range(name)))]


class ChannelDecoder:
    """Reads the windows of one channel in order. ``notes`` and ``errors`` grow; end with ``finish``."""

    def __init__(self, layout: TokenLayout, start_from_ties: bool = False) -> None:
        self._kinds = _token_kinds(layout)
        self._start_from_ties = start_from_ties
        self._sounding: dict[int, float] = {}
        """Program and pitch as one number, to the onset of the note that sounds."""
        self._active: dict[int, int] = {}
        """How many notes the last readable window left on, by its own tokens."""
        self._doubtful: dict[int, float] = {}
        """Notes begun just before the seam that the window behind it does not know (yet), to the seam."""
        self._last_hit: dict[int, float] = {}
        """Drum pitch to the time of its last hit."""
        self.notes: list[NoteRow] = []
        self.errors: Counter[str] = Counter()

    def _close(self, key: int, time: float) -> None:
        onset = self._sounding.pop(key)
        offset = time if time > onset else onset + MINIMUM_SECONDS
        self.notes.append((onset, offset, key & 127, key >> 7, 1, False))

    def _read_ties(self, tokens: Sequence[int]) -> tuple[int, int | None, dict[int, int]]:
        """Index after the tie token (-1: there is none), program state, and the tied notes."""
        program: int | None = None
        ties: dict[int, int] = {}
        for index, token in enumerate(tokens):
            kind, value = self._kinds[token] if 0 <= token < len(self._kinds) else (_UNKNOWN, 0)
            if kind == _PITCH:
                if program is None:
                    self.errors[TokenErrors.TIE_WITHOUT_PROGRAM] += 1
                else:
                    key = program << 7 | value
                    ties[key] = ties.get(key, 0) + 1
            elif kind == _PROGRAM:
                program = value
            elif kind == _TIE:
                return index + 1, program, ties
            elif kind == _SHIFT or token == EOS_ID:
                break
        self.errors[TokenErrors.MISSING_TIE] += 1
        return -1, None, {}

    def _enter(
        self, active: dict[int, int], begin: float, started: dict[int, float], overlapping: bool
    ) -> None:
        """Hand over from the window before to one whose notes at ``begin`` are ``active``.

        ``started`` has the onsets that the new window itself wrote before ``begin``: one just before it, of
        a note that does not sound yet, was placed behind the seam by the window before. A note that only
        the window before has, begun just before the seam, may still be placed behind it by the new one.
        """
        self._doubtful.clear()
        for key, count in self._active.items():
            if count > 0 and active.get(key, 0) <= 0:
                if overlapping and self._sounding.get(key, -1.0) >= begin - SEAM_SECONDS:
                    self._doubtful[key] = begin
                    continue
                self.errors[TokenErrors.UNTIED] += count
                if key in self._sounding:
                    self._close(key, begin)
        for key, count in active.items():
            if key in self._sounding or count <= 0:
                continue
            if started.get(key, -1.0) >= begin - SEAM_SECONDS:
                self._sounding[key] = started[key]
            elif self._start_from_ties:
                self._sounding[key] = begin
        self._active = active

    def _hit(self, pitch: int, time: float, seam: float) -> None:
        """A drum; not again when the window before wrote it just before the seam."""
        if time - self._last_hit.get(pitch, -1.0) < SEAM_SECONDS and time < seam + SEAM_SECONDS:
            return
        self._last_hit[pitch] = time
        self.notes.append((time, time + MINIMUM_SECONDS, pitch, DRUM_PROGRAM, 1, True))

    def read_window(
        self, tokens: Sequence[int], start: float, region: tuple[float, float] | None = None
    ) -> None:
        """One window that starts at ``start`` seconds; tokens after EOS are not looked at.

        A window without a tie token is skipped, and what sounded before it sounds on.

        Args:
            tokens: ids up to EOS.
            start: seconds from the start of the song.
            region: of overlapping windows the part (begin, end) in seconds that this one answers for; what
                it says of the time before only tells what sounds when the region begins. None: all of it.
        """
        index, program, active = self._read_ties(tokens)
        if index < 0:
            return
        begin, end = region or (start, math.inf)
        overlapping = begin > start
        seam = begin if overlapping else -math.inf
        started: dict[int, float] = {}
        entered = begin <= start
        if entered:
            self._enter(active, begin, started, overlapping)
        sounding, errors, kinds = self._sounding, self.errors, self._kinds
        start_tick = round(start * SHIFT_STEPS_PER_SECOND)
        time = start_tick / SHIFT_STEPS_PER_SECOND
        velocity: int | None = None
        at_start = True
        size = len(kinds)
        for token in tokens[index:]:
            if token == EOS_ID:
                break
            kind, value = kinds[token] if 0 <= token < size else (_UNKNOWN, 0)
            if kind == _PITCH:
                if program is None:
                    errors[TokenErrors.WITHOUT_PROGRAM] += 1
                elif velocity is None:
                    errors[TokenErrors.WITHOUT_VELOCITY] += 1
                else:
                    key = program << 7 | value
                    if velocity:
                        active[key] = active.get(key, 0) + 1
                        if not entered:
                            started[key] = time
                        elif key not in sounding:
                            sounding[key] = time
                        elif time >= seam + SEAM_SECONDS or time - sounding[key] >= SEAM_SECONDS:
                            self._close(key, self._doubtful.get(key, time))
                            sounding[key] = time
                        self._doubtful.pop(key, None)
                    elif not active.get(key, 0):
                        errors[TokenErrors.OFF_WITHOUT_ON] += 1
                    else:
                        active[key] -= 1
                        if not entered:
                            continue
                        if key in sounding and sounding[key] <= time:
                            self._close(key, time)
                        else:
                            errors[TokenErrors.ONSET_NOT_FOUND] += 1
            elif kind == _SHIFT:
                if value:
                    time = (start_tick + value) / SHIFT_STEPS_PER_SECOND
                    at_start = False
                    if time >= begin and not entered:
                        entered = True
                        self._enter(active, begin, started, overlapping)
                    if time >= end:
                        break
                else:
                    errors[TokenErrors.SHIFT] += 1
            elif kind == _VELOCITY:
                velocity = value
            elif kind == _PROGRAM:
                program = value
            elif kind == _DRUM:
                if entered or time >= begin - SEAM_SECONDS:
                    self._hit(value, time, seam)
            elif kind == _TIE:
                errors[TokenErrors.SECOND_TIE_AT_START if at_start else TokenErrors.SECOND_TIE] += 1
            elif kind == _UNKNOWN:
                errors[TokenErrors.UNKNOWN] += 1
        if not entered:
            self._enter(active, begin, started, overlapping)
        for key, seam_time in self._doubtful.items():
            self._close(key, seam_time)
        self._doubtful.clear()

    def sounding(self) -> Iterator[tuple[int, int, float]]:
        """Program, pitch and onset of the notes that have not ended."""
        for key, onset in self._sounding.items():
            yield key >> 7, key & 127, onset

    def finish(self) -> None:
        """End what still sounds: such a note has the shortest length."""
        for key, onset in self._sounding.items():
            self.notes.append((onset, onset + MINIMUM_SECONDS, key & 127, key >> 7, 1, False))
        self._sounding, self._active = {}, {}
