"""The options of ``train.py`` that say what is minimised: the terms of the loss and when they set in."""

from __future__ import annotations

from ..config.objective import OCTAVE_SAMPLES, TOKEN_CLASSES
from .parser import Option, Section

_objective = Section("objective", "objective")

OBJECTIVE_OPTIONS: tuple[Option, ...] = (
    _objective(
        "",
        "--octave-weight",
        "float",
        ".octave_weight",
        "weight of the cross-entropy of pitches at the octave, one for a whole sample, that fits best",
        metavar="W",
    ),
    _objective(
        "",
        "--octave-samples",
        "text",
        ".octave_samples",
        "samples that have it: all, or those whose octave the store does not know, or knows",
        choices=OCTAVE_SAMPLES,
    ),
    _objective(
        "",
        "--hide-octaves",
        "bool",
        ".hide_octaves",
        "samples of unknown octave: the cross-entropy leaves out their pitches and the decoder reads them in "
        "random octaves, so that octave and chroma term alone teach them",
    ),
    _objective(
        "",
        "--chroma-weight",
        "float",
        ".chroma_weight",
        "weight of the cross-entropy of pitch classes",
        metavar="W",
    ),
    _objective(
        "",
        "--blank-weight",
        "float",
        ".blank_weight",
        "weight of the probability of an empty sequence where the label has notes",
        metavar="W",
    ),
    _objective(
        "",
        "--onset-weight",
        "float",
        ".onset_weight",
        "weight of the distance between expected and true number of onsets",
        metavar="W",
    ),
    _objective(
        "",
        "--boundary-weight",
        "float",
        ".boundary_weight",
        "weight of the cross-entropy of time tokens with targets spread over neighbouring steps",
        metavar="W",
    ),
    _objective(
        "",
        "--boundary-width",
        "int",
        ".boundary_width",
        "steps to either side that have a share of that target, less the further they are",
        metavar="STEPS",
    ),
    _objective(
        "",
        "--label-smoothing",
        "float",
        ".label_smoothing",
        "share of the cross-entropy's target that is spread over the whole vocabulary",
        metavar="SHARE",
    ),
    _objective(
        "",
        "--class-weight",
        "text",
        ".class_weights",
        f"weight in the cross-entropy of a kind of token ({', '.join(TOKEN_CLASSES)}); others have 1",
        count=0,
        metavar="KIND=W ...",
    ),
    _objective(
        "",
        "--term-weight",
        "text",
        ".term_weights",
        "weight of a term that has no option of its own, and of token_ce, the main one, which has 1",
        count=0,
        metavar="NAME=W ...",
    ),
    _objective(
        "",
        "--term-start",
        "text",
        ".term_start",
        "steps before a term sets in, such as octave=1000",
        count=0,
        metavar="NAME=STEP ...",
    ),
    _objective(
        "",
        "--term-ramp",
        "text",
        ".term_ramp",
        "steps in which the weight of a term then grows to its full value",
        count=0,
        metavar="NAME=STEPS ...",
    ),
)
