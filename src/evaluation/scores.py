"""The scores of one transcription in one call."""

from __future__ import annotations

from collections.abc import Sequence

from ..config.tasks import Task
from ..config.vocabularies import get_drum_vocab, get_program_vocab
from .matching import OFFSET_MIN_TOLERANCE, OFFSET_RATIO, ONSET_TOLERANCE
from .pairing import Tolerances
from .repair import Notes
from .scoring import Scoring, Vocabulary

Classes = Vocabulary | str | Task | None
"""Classes: name to members, the name of a vocabulary, or a task (its own); None for none."""


def program_classes(vocab: Classes) -> Vocabulary:
    """The instrument classes meant: a task's are its ``eval_vocab``."""
    name = vocab.eval_vocab if isinstance(vocab, Task) else vocab
    return get_program_vocab(name) if isinstance(name, str) else name or {}


def drum_classes(drum_vocab: Classes, vocab: Classes = None) -> Vocabulary | None:
    """The drum classes meant; None takes those of the task, if ``vocab`` is one."""
    chosen = vocab if drum_vocab is None and isinstance(vocab, Task) else drum_vocab
    name = chosen.drum_vocab if isinstance(chosen, Task) else chosen
    return get_drum_vocab(name) if isinstance(name, str) else name


def score_notes(
    reference: Notes,
    estimate: Notes,
    vocab: Classes = None,
    drum_vocab: Classes = None,
    *,
    pitch_class: Sequence[str] = (),
    melody: Sequence[str] | None = None,
    strict: bool = True,
    onset_tolerance: float = ONSET_TOLERANCE,
    offset_ratio: float = OFFSET_RATIO,
    offset_min_tolerance: float = OFFSET_MIN_TOLERANCE,
    duration: float | None = None,
) -> dict[str, float]:
    """All scores of one file, under the keys of the logs without their prefix.

    Args:
        reference: what is there, ``Note`` objects or a note array; repaired first, so never raises for
            zero-length or negative notes.
        estimate: what was found.
        vocab: classes to score apart: name to programs, the name of a program vocabulary, or a task;
            ``None`` scores no class.
        drum_vocab: classes of drum pitches, likewise; hits outside are left out, pitches of one class are
            equal. ``None`` takes those of the task if one is given, else compares drum pitches as they are.
        pitch_class: classes of ``vocab`` that also get octave-free scores (keys ``..._{class}_pc``).
        melody: classes of ``vocab`` that also get melody scores; ``None``: its lead voices.
        strict: also give the ``*_strict`` keys.
        onset_tolerance, offset_ratio, offset_min_tolerance: seconds, share, seconds.
        duration: seconds of audio; without it, the time of the melody scores ends with the last note.

    Returns:
        ``onset_f``, ``offset_f``, ``onset_f_drum``, ``frame_f``, ``frame_f_pc``; with classes ``multi_f``,
        ``onset_f_{class}``, ``offset_f_{class}`` and ``melody_{rpa,rca,oa,vr,vfa}_{class}``; and the same
        with ``_strict``. The keys depend on the arguments only (:func:`score_keys`), never on the notes.
    """
    scoring = Scoring(
        program_classes(vocab),
        drum_classes(drum_vocab, vocab),
        tuple(pitch_class),
        None if melody is None else tuple(melody),
        Tolerances(onset_tolerance, offset_ratio, offset_min_tolerance),
    )
    return scoring.counts(reference, estimate, duration=duration).scores(strict=strict)


def score_keys(
    vocab: Classes = None,
    *,
    pitch_class: Sequence[str] = (),
    melody: Sequence[str] | None = None,
    strict: bool = True,
) -> list[str]:
    """The keys :func:`score_notes` gives for these arguments, in its order."""
    melodies = None if melody is None else tuple(melody)
    return Scoring(program_classes(vocab), None, tuple(pitch_class), melodies).keys(strict=strict)
