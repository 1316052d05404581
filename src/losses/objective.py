"""The objective: named terms, each with a weight that may set in later, and their weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

Outputs = TypeVar("Outputs")


@dataclass(frozen=True)
class Term(Generic[Outputs]):
    """One part of the objective."""

    name: str
    compute: Callable[[Outputs], Tensor | Mapping[str, Tensor]]
    """Outputs of the network and targets in; a scalar, or scalars under their own names (then logged under
    those and summed)."""
    weight: float = 1.0
    until: int = 0
    """Number of steps the term is trained for; 0 is to the end. Later it is not counted and not logged."""
    start: int = 0
    """Number of steps before the term sets in. Earlier it is not counted and not logged."""
    ramp: int = 0
    """Number of steps in which its weight then grows from ``weight / ramp`` to ``weight``; 0 is at once."""

    def weight_at(self, step: int) -> float:
        """The weight at the step that is taken after ``step`` others: nothing else says what it is, so a
        resumed run goes on where it was."""
        if step < self.start or (self.until and step >= self.until):
            return 0.0
        if step + 1 - self.start >= self.ramp:
            return self.weight
        return self.weight * (step + 1 - self.start) / self.ramp


class Objective(Generic[Outputs]):
    """The weighted sum of terms."""

    def __init__(self, terms: Sequence[Term[Outputs]]) -> None:
        names = [term.name for term in terms]
        assert len(set(names)) == len(names), f"two terms of one name: {names}"
        self.terms = tuple(terms)

    def active(self, step: int) -> set[str]:
        """Names of the terms that count at that step (number of steps taken before it)."""
        return {term.name for term in self.terms if term.weight_at(step) > 0}

    def __call__(self, outputs: Outputs, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Total loss and the unweighted terms by name.

        Args:
            outputs: whatever the terms read.
            step: steps taken so far.
        """
        total: Tensor | None = None
        values: dict[str, Tensor] = {}
        for term in self.terms:
            weight = term.weight_at(step)
            if weight <= 0:
                continue
            found = term.compute(outputs)
            named = {term.name: found} if isinstance(found, Tensor) else dict(found)
            for value in named.values():
                weighted = value if weight == 1.0 else value * weight
                total = weighted if total is None else total + weighted
            values |= named
        assert total is not None, "an objective without a term that counts"
        return total, values
