"""Which token follows: the likeliest, or one drawn from the distribution; with or without constraints.

Axes: R rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Constraint(Protocol):
    """Says which tokens may follow. It is told which rows are decoded and what they wrote."""

    def begin(self, rows: Tensor) -> None:
        """Start with these rows (R,), numbered from 0 in the order of the memory."""

    def replace(self, places: Tensor, rows: Tensor) -> None:
        """New rows ``rows`` (n,) start in the places ``places`` (n,)."""

    def keep(self, places: Tensor) -> None:
        """Only these places go on, in this order."""

    def allowed(self) -> Tensor:
        """(R, V) bool: the tokens that may follow; at least one in each row."""

    def advance(self, tokens: Tensor) -> None:
        """Each row wrote a token (R,); ended rows go on getting PAD."""


@dataclass(frozen=True)
class DecodingOptions:
    """How tokens are chosen and rows batched."""

    max_length: int
    """Longest sequence, end token and forced tokens included."""
    pad_id: int = 0
    eos_id: int = 1
    temperature: float = 0.0
    """0 takes the likeliest token; above, logits are divided by it and a token is drawn."""
    top_p: float = 1.0
    """Draw from the smallest set of tokens that holds this much probability (Holtzman et al. 2020)."""
    seed: int = 0
    """Of the draws. A row's draws depend on it and the row's number only, not on the batch."""
    with_log_probs: bool = False
    """Also give the log-probability of each token under the network's own distribution: temperature 1, all
    tokens, no constraint; what teacher forcing gives."""
    max_rows: int = 0
    """Rows decoded at a time; 0 is as many as fit into some memory."""
    expected_length: int = 0
    """Tokens that rows have on average, as far as one knows; 0 is as many as they may. For rows of few tokens
    a CPU makes no keys and values of the memory."""

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, is {self.temperature:g}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie above 0 and at most at 1, is {self.top_p:g}")
        if self.max_rows < 0:
            raise ValueError(f"max_rows must not be negative, is {self.max_rows}")
        if self.expected_length < 0:
            raise ValueError(f"expected_length must not be negative, is {self.expected_length}")


def short_length(max_length: int) -> int:
    """Tokens that a row has on average when a song's instruments are rows of their own: most of them rest."""
    return max(1, max_length // 16)


def draws(rows: Tensor, length: int, seed: int) -> Tensor:
    """(R, length) uniform numbers in [0, 1), a stream of its own for each row number."""
    streams = []
    for row in rows.tolist():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + row) % 2**63)
        streams.append(torch.rand(length, generator=generator))
    return torch.stack(streams).to(rows.device)


def _nucleus(logits: Tensor, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities (..., V) from the largest down, 0 outside the nucleus, and the tokens they are of."""
    probs, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
    before = probs.cumsum(-1) - probs
    return probs.masked_fill(before >= top_p, 0.0), order


def policy_log_probs(logits: Tensor, tokens: Tensor, temperature: float, top_p: float) -> Tensor:
    """(..., V) log-probabilities with which :func:`sample` draws; minus infinity outside the nucleus.

    ``tokens`` (...) were drawn from these logits: they belong to the nucleus also where rounding puts them
    just outside.
    """
    scores = logits.float() / temperature
    if top_p < 1:
        probs, order = _nucleus(logits.detach().float(), temperature, top_p)
        kept = torch.zeros_like(probs, dtype=torch.bool).scatter_(-1, order, probs > 0)
        kept.scatter_(-1, tokens.unsqueeze(-1), True)
        scores = scores.masked_fill(~kept, float("-inf"))
    return scores.log_softmax(-1)


def sample(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """Tokens (R,) drawn from logits (R, V) by one uniform number (R,) each; any token of logits that are not
    finite, whose step training drops."""
    probs, order = _nucleus(logits, temperature, top_p)
    total = probs.cumsum(-1)
    place = (total <= uniform[:, None] * total[:, -1:]).sum(-1, keepdim=True)
    place = place.minimum((probs > 0).sum(-1, keepdim=True) - 1).clamp(min=0)
    return order.gather(-1, place)[:, 0]


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """(R,) log-probability of tokens (R,) under logits (R, V)."""
    logits = logits.float()
    return logits.gather(-1, tokens[:, None])[:, 0] - logits.logsumexp(-1)
