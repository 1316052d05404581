"""Targets that are spread over neighbouring steps, so that a step off costs less than ten.

Axes: B batch, C channels, N tokens, V vocabulary, K neighbours.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .scores import within

SIGMAS = 3.0
"""A Gaussian is cut off this many standard deviations from its centre."""


def gaussian_kernel(sigma: float, like: Tensor) -> Tensor:
    """(K,), K odd, like ``like``: ``exp(-d^2 / 2 sigma^2)`` for the steps ``|d| <= 3 sigma``."""
    offsets = _offsets(math.floor(SIGMAS * sigma + 1e-9), like)
    return torch.exp(-0.5 * (offsets / sigma) ** 2)


def triangular_kernel(width: int, like: Tensor) -> Tensor:
    """(K,), K = 2 width + 1, like ``like``: ``1 - |d| / (width + 1)`` for the steps ``|d| <= width``."""
    return 1.0 - _offsets(width, like).abs() / (width + 1)


def _offsets(radius: int, like: Tensor) -> Tensor:
    return torch.arange(-radius, radius + 1, dtype=like.dtype, device=like.device)


def spread_scores(scores: Tensor, labels: Tensor, ids: range, kernel: Tensor) -> Tensor:
    """Logit of each label, averaged over its neighbours within ``ids`` where the label is one of these.

    The weights are those of the kernel, cut at the ends of ``ids`` and normalised. Only the neighbours'
    logits are gathered; no (.., V) target is made.

    Args:
        scores: (B, C, N, V).
        labels: (B, C, N) int64.
        ids: tokens that stand in order, such as those of time.
        kernel: (K,) weights of the neighbours, K odd, the label's own in the middle.

    Returns:
        (B, C, N): log-total minus this is the cross-entropy with the spread target.
    """
    assert ids, "a spread needs tokens that stand in order"
    radius = len(kernel) // 2
    offsets = torch.arange(-radius, radius + 1, device=labels.device)
    in_order = within(labels, ids).unsqueeze(-1)
    neighbours = labels.unsqueeze(-1) + offsets
    weights = torch.where(within(neighbours, ids), kernel, kernel.new_zeros(()))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    weights = torch.where(in_order, weights, (offsets == 0).to(scores))
    chosen = torch.where(in_order, neighbours.clamp(ids.start, ids.stop - 1), labels.unsqueeze(-1))
    return (scores.gather(-1, chosen) * weights).sum(-1)
