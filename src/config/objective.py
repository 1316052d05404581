"""What training minimises: weights of the terms of the loss, and when they set in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .checks import check_name, check_share
from .values import read_value

MAIN_TERM = "token_ce"
"""The cross-entropy of the tokens, which is always there."""
OCTAVE_SAMPLES = ("all", "unknown", "known")
"""Which samples have the octave term, by what the store says of the octave of their notes."""
TOKEN_CLASSES = ("shift", "pitch", "velocity", "tie", "program", "drum", "eos")
"""Kinds of tokens that can have a weight of their own in the cross-entropy."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """Weights of the terms of the loss (section OBJECTIVE); 0 leaves a term out."""

    frame_weight: float = 0.0
    """Weight of the frame head's terms; 0 leaves the head out."""
    frame_until: int = 0
    """Step after which the frame terms are dropped; 0 keeps them to the end."""
    soft_shift_ms: float = 0.0
    """Standard deviation in ms of the Gaussian that spreads time-shift targets; 0 is hard targets."""
    moe_balance_weight: float = 0.0
    """Weight of the load-balancing term of ``-ff moe``; 0 leaves it out, as published models did."""
    label_smoothing: float = 0.0
    """Share of the uniform target in the cross-entropy."""
    class_weights: tuple[str, ...] = ()
    """``KIND=W``: weight in the cross-entropy of tokens of a kind of :data:`TOKEN_CLASSES`; others have 1."""
    octave_weight: float = 0.0
    octave_samples: str = "all"
    """Which samples have the octave term: one of :data:`OCTAVE_SAMPLES`."""
    hide_octaves: bool = False
    """In samples of unknown octave the cross-entropy leaves out the pitches and the decoder reads them in
    random octaves: the octave and chroma terms alone teach them (flag ``--hide-octaves``)."""
    chroma_weight: float = 0.0
    blank_weight: float = 0.0
    onset_weight: float = 0.0
    boundary_weight: float = 0.0
    boundary_width: int = 2
    """Steps to either side of the true one that have a share of the boundary term's target."""
    term_weights: tuple[str, ...] = ()
    """``NAME=W``: weight of a term that has no field here, and of the main one (else 1)."""
    term_start: tuple[str, ...] = ()
    """``NAME=STEP``: steps before a term sets in."""
    term_ramp: tuple[str, ...] = ()
    """``NAME=STEPS``: steps in which the weight of a term grows from its start on."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and value < 0:
                raise ValueError(f"{_flag(name)} must not be negative, is {value}")
        check_share("--label-smoothing", self.label_smoothing)
        check_name("--octave-samples", self.octave_samples, OCTAVE_SAMPLES)
        if self.boundary_width < 1:
            raise ValueError(
                "--boundary-width must be at least 1 step: without neighbours the boundary term would be the "
                "cross-entropy again"
            )
        taught_octave = self.octave_weight > 0 and self.octave_samples != "known"
        if self.hide_octaves and not (taught_octave or self.chroma_weight > 0):
            raise ValueError(
                "--hide-octaves takes the pitches of samples of unknown octave out of the cross-entropy, and "
                "nothing else teaches them: add --chroma-weight, or --octave-weight for these samples"
            )
        for kind in self.weight_of_class:
            check_name("kind of token of --class-weight", kind, TOKEN_CLASSES)
        if set(self.weight_of_class) == set(TOKEN_CLASSES) and not any(self.weight_of_class.values()):
            raise ValueError("--class-weight leaves no kind of token a weight above 0")
        for name, weight in _named_numbers("--term-weight", self.term_weights).items():
            if f"{name}_weight" in vars(self):
                raise ValueError(
                    f"--term-weight {name}={weight:g}: write {_flag(f'{name}_weight')} {weight:g}"
                )
            if name == MAIN_TERM and weight == 0:
                raise ValueError(
                    f"--term-weight {name}=0: without its main term nothing learns to write tokens"
                )
        if MAIN_TERM in self.start_of_term:
            raise ValueError(f"--term-start {MAIN_TERM}: the main term is there from the start; leave it out")
        _ = self.ramp_of_term  # refuses what cannot be read

    @property
    def weight_of_class(self) -> dict[str, float]:
        """Kind of token to its weight, those that are said."""
        return _named_numbers("--class-weight", self.class_weights)

    @property
    def start_of_term(self) -> dict[str, int]:
        """Name of a term to the steps before it, those that are said."""
        return {
            name: int(value) for name, value in _named_numbers("--term-start", self.term_start, "int").items()
        }

    @property
    def ramp_of_term(self) -> dict[str, int]:
        """Name of a term to the steps in which its weight grows, those that are said."""
        return {
            name: int(value) for name, value in _named_numbers("--term-ramp", self.term_ramp, "int").items()
        }

    def weight_of(self, name: str) -> float:
        """Weight of a term of the objective; 0 for one that nothing is said of."""
        default = 1.0 if name == MAIN_TERM else 0.0
        said = _named_numbers("--term-weight", self.term_weights)
        return float(vars(self).get(f"{name}_weight", said.get(name, default)))

    @property
    def terms_said(self) -> dict[str, tuple[str, ...]]:
        """Flag to the names of terms it says something of."""
        return {
            "--term-weight": tuple(_named_numbers("--term-weight", self.term_weights)),
            "--term-start": tuple(self.start_of_term),
            "--term-ramp": tuple(self.ramp_of_term),
        }


def _flag(field: str) -> str:
    return "--soft-shift" if field == "soft_shift_ms" else "--" + field.replace("_", "-")


def _named_numbers(flag: str, texts: Iterable[str], kind: str = "float") -> dict[str, float]:
    """``NAME=NUMBER`` texts as a dictionary; numbers are 0 or more.

    Raises:
        ValueError: names the flag and the text that cannot be read.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not name or not equals:
            raise ValueError(f"{flag} expects NAME=NUMBER, not {text!r}")
        if name in found:
            raise ValueError(f"{flag} says two numbers of {name}: leave one out")
        try:
            value = float(read_value(kind, number))
        except ValueError as error:
            raise ValueError(f"{flag} {name} {error}") from None
        if value < 0:
            raise ValueError(f"{flag} {text} must not be negative")
        found[name] = value
    return found
