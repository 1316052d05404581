"""Counts behind the scores. They add up over files; every score is a ratio of two of them.

One convention holds for all: a reference without notes (or without a melody) gives NaN, so that the file
is left out of means, as in the published YourMT3 evaluation. The ``*_strict`` scores differ in one case
only: something found where the reference has nothing gives 0. Counts pooled over files (micro) need no
convention: whatever was found counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

STRICT = "_strict"
"""Ending of the keys that count false positives on empty references."""
Ratio = tuple[int, int]
"""Numerator and denominator of a score."""


def divide(ratio: Ratio) -> float:
    """The ratio as a number; NaN when the denominator is 0."""
    return ratio[0] / ratio[1] if ratio[1] else float("nan")


@dataclass(frozen=True)
class NoteScore:
    """Agreement of two sets of notes, or of the cells of two piano rolls, as counts."""

    num_matched: int
    num_reference: int
    num_estimate: int

    @property
    def precision(self) -> float:
        """Share of the estimated notes that are right; NaN without estimated notes."""
        return divide((self.num_matched, self.num_estimate))

    @property
    def recall(self) -> float:
        """Share of the reference notes that were found; NaN without reference notes."""
        return divide((self.num_matched, self.num_reference))

    @property
    def f_ratio(self) -> Ratio:
        """F-measure as a ratio of counts, ``2 matched / (reference + estimate)``."""
        return 2 * self.num_matched, self.num_reference + self.num_estimate

    @property
    def f(self) -> float:
        """F-measure; NaN without reference notes (published convention), 0 with an empty estimate."""
        return divide(self.f_ratio) if self.num_reference else float("nan")

    @property
    def f_strict(self) -> float:
        """F-measure that is 0 for notes found where the reference has none; NaN when both are empty."""
        return divide(self.f_ratio)

    def __add__(self, other: NoteScore) -> NoteScore:
        """The counts of two files pooled (micro average)."""
        return NoteScore(
            self.num_matched + other.num_matched,
            self.num_reference + other.num_reference,
            self.num_estimate + other.num_estimate,
        )


@dataclass(frozen=True)
class MelodyScore:
    """Agreement of two melodies as counts of frames; measures of Poliner et al. 2007 as in mir_eval."""

    num_frames: int
    """Frames of the time grid."""
    num_voiced: int
    """Frames in which the reference sings."""
    num_estimated: int
    """Frames in which the estimate sings."""
    num_both: int
    """Frames in which both sing."""
    num_pitch: int
    """Frames in which both sing the same pitch."""
    num_chroma: int
    """Frames in which both sing the same pitch class."""

    def ratios(self) -> dict[str, Ratio]:
        """``rpa`` raw pitch accuracy, ``rca`` raw chroma accuracy, ``oa`` overall accuracy, ``vr`` voicing
        recall, ``vfa`` voicing false alarm (lower is better)."""
        false_alarms = self.num_estimated - self.num_both
        silent = self.num_frames - self.num_voiced
        return {
            "rpa": (self.num_pitch, self.num_voiced),
            "rca": (self.num_chroma, self.num_voiced),
            "oa": (self.num_pitch + silent - false_alarms, self.num_frames),
            "vr": (self.num_both, self.num_voiced),
            "vfa": (false_alarms, silent),
        }

    def scores(self) -> dict[str, float]:
        """The ratios as numbers; all NaN without a reference melody, ``vfa`` also without silent frames."""
        counted = self.num_voiced > 0
        return {name: divide(ratio) if counted else float("nan") for name, ratio in self.ratios().items()}

    def strict_scores(self) -> dict[str, float]:
        """``rpa``, ``rca`` and ``oa``, 0 when only the estimate has a melody; NaN when neither has."""
        found_nothing_there = not self.num_voiced and self.num_estimated > 0
        return {name: 0.0 if found_nothing_there else self.scores()[name] for name in ("rpa", "rca", "oa")}

    def __add__(self, other: MelodyScore) -> MelodyScore:
        """The counts of two files pooled (micro average)."""
        return MelodyScore(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class FileCounts:
    """All counts of one file, or of several files pooled."""

    notes: Mapping[str, NoteScore]
    """Key without ``_strict``, for example ``onset_f_Bass``, to its counts."""
    melodies: Mapping[str, MelodyScore]
    """Class name to its counts."""

    def scores(self, *, strict: bool = True) -> dict[str, float]:
        """Every score under its key; ``strict`` adds the ``*_strict`` ones."""
        scores = {key: count.f for key, count in self.notes.items()}
        for name, melody in self.melodies.items():
            scores |= {f"melody_{kind}_{name}": value for kind, value in melody.scores().items()}
        if strict:
            scores |= {key + STRICT: count.f_strict for key, count in self.notes.items()}
            for name, melody in self.melodies.items():
                scores |= {
                    f"melody_{kind}_{name}{STRICT}": value for kind, value in melody.strict_scores().items()
                }
        return scores

    def ratios(self) -> dict[str, Ratio]:
        """Numerator and denominator of every key without ``_strict``; sums of them over files give the
        micro averages."""
        ratios = {key: count.f_ratio for key, count in self.notes.items()}
        for name, melody in self.melodies.items():
            ratios |= {f"melody_{kind}_{name}": ratio for kind, ratio in melody.ratios().items()}
        return ratios

    def __add__(self, other: FileCounts) -> FileCounts:
        """The counts of two files pooled; both must have the same keys."""
        if self.notes.keys() != other.notes.keys() or self.melodies.keys() != other.melodies.keys():
            raise ValueError("only counts of the same keys add up: score both files with one vocabulary")
        return FileCounts(
            {key: count + other.notes[key] for key, count in self.notes.items()},
            {name: melody + other.melodies[name] for name, melody in self.melodies.items()},
        )
