"""Sequences drawn from the network as it is, with the fast decoder: no second copy of the weights.

Axes: R rows, N tokens, T frames, D width, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..model import Transcriber
from ..model.decoder import DecoderWeights, DecodingOptions, generate, policy_log_probs
from ..model.layers.modes import evaluating


class Rollout(NamedTuple):
    """Decoded rows and which of their tokens the network chose."""

    ids: Tensor
    """(R, N), PAD behind the end."""
    chosen: Tensor
    """(R, N) bool: up to the end token; False for given task tokens and behind the end."""
    log_probs: Tensor | None
    """(R, N) under the network's own distribution, when asked for."""

    def rows(self) -> list[list[int]]:
        """The chosen tokens of each row."""
        ids, chosen = self.ids.cpu(), self.chosen.cpu()
        return [row[kept].tolist() for row, kept in zip(ids, chosen, strict=True)]


def roll_out(
    weights: DecoderWeights, memory: Tensor, options: DecodingOptions, prefix: Tensor | None = None
) -> Rollout:
    """Decode each row of memory (R, T, D); ``prefix`` (R, P) are given task tokens, PAD where free.

    A PAD that was drawn before the end is a token like any other.
    """
    ids, log_probs = generate(weights, memory, options, prefix=prefix)
    ended = ids == options.eos_id
    before_end = ended.cumsum(1) - ended.long() == 0
    if prefix is not None:
        width = min(prefix.shape[1], ids.shape[1])
        before_end[:, :width] &= prefix[:, :width] == options.pad_id
    return Rollout(ids, before_end, log_probs)


def clean_logits(model: Transcriber, memory: Tensor, ids: Tensor) -> Tensor:
    """(R, N, V) logits of decoded rows, with gradient and without the decoder's dropout.

    These are the logits the rows were drawn from: the fast decoder drops nothing either.
    """
    with evaluating(model.decoder):
        return model.row_logits(memory, ids)


class Policy(NamedTuple):
    """Log-probabilities of M chosen tokens, and the spread of the distributions they were drawn from."""

    log_probs: Tensor
    """(M,)."""
    entropy: Tensor
    """(M,) in nats."""


def policy(logits: Tensor, tokens: Tensor, options: DecodingOptions) -> Policy:
    """Of logits (M, V) and tokens (M,), for exactly the distribution that ``options`` draw from."""
    every = policy_log_probs(logits, tokens, options.temperature, options.top_p)
    finite = every.masked_fill(every == float("-inf"), 0.0)
    entropy = -(every.exp() * finite).sum(-1)
    return Policy(every.gather(-1, tokens.unsqueeze(-1))[:, 0], entropy)


def divergence(logits: Tensor, others: Tensor, temperature: float) -> Tensor:
    """(M,) Kullback-Leibler divergence of the distributions of logits (M, V) from those of ``others``."""
    own, other = (torch.log_softmax(item.float() / temperature, dim=-1) for item in (logits, others))
    return (own.exp() * (own - other)).sum(-1)
