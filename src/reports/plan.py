"""What a test scores and what it writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .. import __version__
from ..config.tasks import Task
from ..config.vocabularies import get_drum_vocab, get_program_vocab
from ..data.scored import ScoredSet, scoring_of
from ..evaluation import Scoring, Tolerances
from ..evaluation.matching import ONSET_TOLERANCE
from ..evaluation.summary import BOOTSTRAP_SEED, CONFIDENCE, NUM_RESAMPLES
from .systems import System


@dataclass(frozen=True)
class TestPlan:
    """What is scored and what is written."""

    __test__ = False  # pytest takes no class of this name for tests

    split: str = "test"
    """For the record."""
    presets: tuple[str, ...] = ()
    """For the record."""
    eval_vocab: str | None = None
    """Classes scored one by one, for all sets; None takes the preset's, or the task's."""
    eval_drum_vocab: str | None = None
    onset_tolerance: float = ONSET_TOLERANCE
    """Seconds."""
    pitch_class: bool = False
    """Score all classes without octaves too."""
    octave_shift: bool = False
    """Score with the labels moved by octaves too, for each class."""
    label_shift: bool = False
    """Score with the labels moved in time too."""
    max_songs: int = 0
    """Only the first N songs of each set; 0 takes all."""
    write_midi: bool = True
    """Write the MIDI of each song as it is done."""
    num_shown: int = 2
    """Songs shown from each end of a set's ranking."""

    def __post_init__(self) -> None:
        if self.eval_vocab is not None:
            get_program_vocab(self.eval_vocab)
        if self.eval_drum_vocab is not None:
            get_drum_vocab(self.eval_drum_vocab)
        if not 0 < self.onset_tolerance <= 1:
            raise ValueError(
                f"--onset-tolerance must be above 0 and at most 1 s, is {self.onset_tolerance:g}"
            )
        for name in ("max_songs", "num_shown"):
            if getattr(self, name) < 0:
                flag = {"max_songs": "--max-songs", "num_shown": "--report-songs"}[name]
                raise ValueError(f"{flag} must be 0 or more, is {getattr(self, name)}")

    def with_presets(self, presets: tuple[str, ...]) -> TestPlan:
        """The same for other presets."""
        return replace(self, presets=presets)

    def scoring(self, scored: ScoredSet, task: Task) -> Scoring:
        """What is scored of the songs of a set."""
        own = replace(
            scored,
            eval_vocab=self.eval_vocab or scored.eval_vocab,
            eval_drum_vocab=self.eval_drum_vocab or scored.eval_drum_vocab,
        )
        found = scoring_of(own, task)
        octave_free = tuple(found.vocab) if self.pitch_class else found.pitch_class
        return replace(found, pitch_class=octave_free, tolerances=Tolerances(self.onset_tolerance))


def conventions_of(system: System, plan: TestPlan) -> dict[str, Any]:
    """Plain facts about how songs are scored."""
    tolerances = Tolerances(plan.onset_tolerance)
    scoring = Scoring()
    return {
        "amt_version": __version__,
        "task": system.tokenizer.task.name,
        "subtask": system.subtask,
        "presets": list(plan.presets),
        "split": plan.split,
        "max_songs": plan.max_songs,
        "eval_vocab": plan.eval_vocab,
        "eval_drum_vocab": plan.eval_drum_vocab,
        "onset_tolerance": tolerances.onset,
        "offset_ratio": tolerances.offset_ratio,
        "offset_min_tolerance": tolerances.offset_min,
        "frame_hop": scoring.frame_hop,
        "melody_hop": scoring.melody_hop,
        "empty_reference": "not counted; _strict scores count notes found there as 0",
        "label_shift": 0.0,
        "octave_shift": 0,
        "bootstrap": {
            "what": "percentiles over songs",
            "confidence": CONFIDENCE,
            "num_resamples": NUM_RESAMPLES,
            "seed": BOOTSTRAP_SEED,
        },
        "system": system.conventions(),
    }
