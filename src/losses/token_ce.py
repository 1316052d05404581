"""Cross-entropy of the token stream, with time-shift targets that may be spread over neighbouring steps.

Axes: B batch, C channels, N tokens, V vocabulary, K neighbours of a shift token.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SIGMAS = 3.0
"""The Gaussian of soft targets is cut off this many standard deviations from its centre."""


def token_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    pad_id: int = 0,
    shift_range: range | None = None,
    soft_shift_steps: float = 0.0,
) -> Tensor:
    """Mean cross-entropy over all tokens that are not PAD, in float32.

    With ``soft_shift_steps`` the target of a time-shift token is a Gaussian over the neighbouring shift
    tokens, cut at three standard deviations and at the ends of ``shift_range`` and normalised: a step off
    then costs less than ten. Only the neighbours' logits are gathered; no (.., V) target is made.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64.
        pad_id: label that is left out.
        shift_range: ids of the time-shift tokens in order of time; needed for soft targets.
        soft_shift_steps: standard deviation in shift steps; 0 is hard targets.

    Returns:
        Scalar float32. It is 0, with (zero) gradients, when every label is PAD.
    """
    mask, losses = token_losses(
        logits, labels, pad_id=pad_id, shift_range=shift_range, soft_shift_steps=soft_shift_steps
    )
    return losses.sum() / mask.sum().clamp(min=1)


def token_losses(
    logits: Tensor,
    labels: Tensor,
    *,
    pad_id: int = 0,
    shift_range: range | None = None,
    soft_shift_steps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The terms of :func:`token_cross_entropy`: (B, C, N) bool of counted tokens, and (B, C, N) float32
    losses that are 0 elsewhere."""
    assert logits.shape[:-1] == labels.shape
    scores = logits.float()
    mask = labels != pad_id
    if soft_shift_steps > 0:
        assert shift_range, "soft shift targets need the shift tokens"
        picked = _soft_picked(scores, labels, shift_range, soft_shift_steps)
    else:
        picked = scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    losses = torch.logsumexp(scores, dim=-1) - picked
    return mask, torch.where(mask, losses, losses.new_zeros(()))


def _soft_picked(scores: Tensor, labels: Tensor, shift_range: range, sigma: float) -> Tensor:
    """Sum over K neighbours of target weight times logit, (B, C, N); hard for tokens that are no shift."""
    assert shift_range.step == 1
    radius = math.floor(SIGMAS * sigma + 1e-9)
    offsets = torch.arange(-radius, radius + 1, device=labels.device)
    gaussian = torch.exp(-0.5 * (offsets.float() / sigma) ** 2)
    is_shift = ((labels >= shift_range.start) & (labels < shift_range.stop)).unsqueeze(-1)
    neighbours = labels.unsqueeze(-1) + offsets
    inside = (neighbours >= shift_range.start) & (neighbours < shift_range.stop)
    weights = torch.where(inside, gaussian, gaussian.new_zeros(()))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    weights = torch.where(is_shift, weights, (offsets == 0).float())
    ids = torch.where(
        is_shift, neighbours.clamp(shift_range.start, shift_range.stop - 1), labels.unsqueeze(-1)
    )
    return (scores.gather(-1, ids) * weights).sum(-1)
