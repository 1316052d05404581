"""Tokens to notes: one state machine for labels, predictions and rewards.

It reads any sequence. What it cannot use it counts under a name of :class:`TokenErrors` and goes on.
Ticks are steps of 10 ms since the start of the song.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

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

    def read_window(self, tokens: Sequence[int], start: float) -> None:
        """One window that starts at ``start`` seconds; tokens after EOS are not looked at.

        A window without a tie token is skipped, and what sounded before it sounds on.
        """
        index, program, active = self._read_ties(tokens)
        if index < 0:
            return
        sounding, errors, notes, kinds = self._sounding, self.errors, self.notes, self._kinds
        for key, count in self._active.items():
            if key not in active and count > 0:
                errors[TokenErrors.UNTIED] += count
                if key in sounding:
                    self._close(key, start)
        if self._start_from_ties:
            for key in active:
                sounding.setdefault(key, start)
        self._active = active
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
                        if key in sounding:
                            self._close(key, time)
                        sounding[key] = time
                    elif not active.get(key, 0):
                        errors[TokenErrors.OFF_WITHOUT_ON] += 1
                    else:
                        active[key] -= 1
                        if key in sounding and sounding[key] <= time:
                            self._close(key, time)
                        else:
                            errors[TokenErrors.ONSET_NOT_FOUND] += 1
            elif kind == _SHIFT:
                if value:
                    time = (start_tick + value) / SHIFT_STEPS_PER_SECOND
                    at_start = False
                else:
                    errors[TokenErrors.SHIFT] += 1
            elif kind == _VELOCITY:
                velocity = value
            elif kind == _PROGRAM:
                program = value
            elif kind == _DRUM:
                notes.append((time, time + MINIMUM_SECONDS, value, DRUM_PROGRAM, 1, True))
            elif kind == _TIE:
                errors[TokenErrors.SECOND_TIE_AT_START if at_start else TokenErrors.SECOND_TIE] += 1
            elif kind == _UNKNOWN:
                errors[TokenErrors.UNKNOWN] += 1

    def finish(self) -> None:
        """End what still sounds: such a note has the shortest length."""
        for key, onset in self._sounding.items():
            self.notes.append((onset, onset + MINIMUM_SECONDS, key & 127, key >> 7, 1, False))
        self._sounding, self._active = {}, {}
