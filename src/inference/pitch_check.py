"""The frame head as a second opinion on the pitch of sung notes.

The decoder writes a note when it starts; the frame head has heard all of its frames, in every window
that holds them. Where it finds another pitch clearly likelier over the first moments of a note, that pitch
is taken.

Axes: W windows, T frames, P pitches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..config.model import FRAME_GROUPS, FRAME_MIN_PITCH, FRAME_NUM_PITCHES
from ..notes.note import CHORUS_PROGRAM, SINGING_PROGRAM, Note
from ..tokenizer.decoding import SEAM_SECONDS

if TYPE_CHECKING:
    from torch import Tensor

LISTEN_SECONDS = 0.6
"""Part of a note, from its onset, that is listened to."""
_TOUCHING = 1e-6
"""Seconds by which the end of a note and the beginning of the next may miss each other by rounding."""
EDGE_FRAMES = 2
"""Frames at the ends of a window that are left out: they miss half of what they should hear."""


def voice_log_probabilities(frame_logits: Tensor, groups: Sequence[str]) -> npt.NDArray[np.float32]:
    """(W, T, outputs of all groups) → (W, T, P) float32 log-probabilities of the pitches of the voice."""
    import torch

    start = sum(FRAME_GROUPS[group] for group in groups[: groups.index("voice")])
    scores = frame_logits[..., start : start + FRAME_NUM_PITCHES + 1].float()
    chosen: npt.NDArray[np.float32] = torch.log_softmax(scores, dim=-1)[..., 1:].cpu().numpy()
    return chosen


def is_sung(note: Note) -> bool:
    """Whether the frame head is asked about a note."""
    return is_voice(note.program) and not note.is_drum


def is_voice(program: int) -> bool:
    """Whether the frame head is asked about the notes of a program."""
    return program in (SINGING_PROGRAM, CHORUS_PROGRAM)


def join_notes(notes: Sequence[Note], horizon: float) -> tuple[list[Note], list[Note]]:
    """One note where a change of pitch left two: two windows that heard one note at two pitches.

    Of notes of one pitch and program that touch, those that begin less than ``SEAM_SECONDS`` apart are one;
    any other ends where the next begins. With all notes of a song and an infinite horizon nothing waits.

    Args:
        notes: of the voice.
        horizon: no note to come begins before this time.

    Returns:
        The notes that those to come cannot change, and those of ``notes`` that have to wait.
    """
    final: list[Note] = []
    waiting: list[Note] = []
    groups: dict[tuple[int, int], list[Note]] = {}
    for note in sorted(notes):
        groups.setdefault((note.program, note.pitch), []).append(note)
    for group in groups.values():
        current, parts = group[0], group[:1]
        rest: list[Note | None] = [*group[1:], None]
        for following in rest:
            if following is not None and following.onset <= current.offset + _TOUCHING:
                if following.onset - current.onset < SEAM_SECONDS:
                    current = current._replace(offset=max(current.offset, following.offset))
                    parts.append(following)
                    continue
                current = current._replace(offset=following.onset)
            if max(current.offset, current.onset + SEAM_SECONDS) <= horizon:
                final.append(current)
            else:
                waiting += parts
            if following is not None:
                current, parts = following, [following]
    return final, waiting


class PitchEvidence:
    """Mean log-probability of each pitch in each frame of a song, over the windows that hear it."""

    def __init__(self, num_samples: int, segment_samples: int, samples_per_frame: int) -> None:
        self._samples_per_frame = samples_per_frame
        self._end = -(-(num_samples + 2 * segment_samples) // samples_per_frame)
        self._first = 0
        """Frame of the song that the arrays begin with."""
        self._total = np.zeros((0, FRAME_NUM_PITCHES), dtype=np.float32)
        self._count = np.zeros(0, dtype=np.int32)

    def add(self, start_sample: int, scores: npt.NDArray[np.float32]) -> None:
        """The (T, P) log-probabilities of a window that starts at ``start_sample``."""
        first = round(start_sample / self._samples_per_frame) + EDGE_FRAMES
        inner = scores[EDGE_FRAMES : len(scores) - EDGE_FRAMES]
        inner = inner[: max(0, self._end - first)]
        first -= self._first
        assert first >= 0, "what was forgotten is not heard again"
        missing = first + len(inner) - len(self._count)
        if missing > 0:
            missing = max(missing, len(self._count))  # in doubling steps; frames not heard count nothing
            self._total = np.pad(self._total, ((0, missing), (0, 0)))
            self._count = np.pad(self._count, (0, missing))
        self._total[first : first + len(inner)] += inner
        self._count[first : first + len(inner)] += 1

    def forget(self, sample: int) -> None:
        """Frames before ``sample`` are not asked for again."""
        done = min(sample // self._samples_per_frame - self._first, len(self._count))
        if done > 0:
            self._total, self._count = self._total[done:], self._count[done:]
            self._first += done

    def correct(self, notes: Sequence[Note], margin: float, sample_rate: int) -> list[Note]:
        """Sung notes at the pitch that is likelier by more than ``margin`` (natural log, mean per frame)."""
        per_second = sample_rate / self._samples_per_frame
        result = []
        for note in notes:
            if is_sung(note):
                first = int(np.ceil(note.onset * per_second))
                last = max(first + 1, int(min(note.offset, note.onset + LISTEN_SECONDS) * per_second))
                first, last = first - self._first, last - self._first
                heard = self._count[first:last] > 0
                own = note.pitch - FRAME_MIN_PITCH
                if heard.any() and 0 <= own < FRAME_NUM_PITCHES:
                    counts = self._count[first:last][heard, None]
                    scores = (self._total[first:last][heard] / counts).mean(axis=0)
                    best = int(scores.argmax())
                    if scores[best] > scores[own] + margin:
                        note = note._replace(pitch=best + FRAME_MIN_PITCH)
            result.append(note)
        return result
