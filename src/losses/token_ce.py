"""Cross-entropy of the token stream, with time-shift targets that may be spread over neighbouring steps.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .scores import float_scores, log_totals, within
from .spread import gaussian_kernel, spread_scores


def token_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    pad_id: int = 0,
    shift_range: range | None = None,
    soft_shift_steps: float = 0.0,
    label_smoothing: float = 0.0,
    class_weights: Sequence[tuple[range, float]] = (),
    log_total: Tensor | None = None,
) -> Tensor:
    """Mean cross-entropy over all tokens that are not PAD, in float32 (float64 for float64).

    With ``soft_shift_steps`` the target of a time-shift token is a Gaussian over the neighbouring shift
    tokens, cut at three standard deviations and at the ends of ``shift_range`` and normalised. With
    ``label_smoothing`` e each target is (1 - e) of what it was plus e of the uniform one over V (Szegedy et
    al. 2016). With ``class_weights`` the mean is weighted: sum of weight times loss over sum of weights.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64.
        pad_id: label that is left out.
        shift_range: ids of the time-shift tokens in order of time; needed for soft targets.
        soft_shift_steps: standard deviation in shift steps; 0 is hard targets.
        label_smoothing: share of the uniform target, from 0 to below 1.
        class_weights: ids of labels and their weight; labels in none of the ranges have weight 1.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar. It is 0, with (zero) gradients, when no label counts.
    """
    mask, losses = token_losses(
        logits,
        labels,
        pad_id=pad_id,
        shift_range=shift_range,
        soft_shift_steps=soft_shift_steps,
        label_smoothing=label_smoothing,
        log_total=log_total,
    )
    if not class_weights:
        return losses.sum() / mask.sum().clamp(min=1)
    weights = mask.to(losses)
    for ids, weight in class_weights:
        weights = torch.where(within(labels, ids) & mask, weight, weights)
    return (losses * weights).sum() / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)


def token_losses(
    logits: Tensor,
    labels: Tensor,
    *,
    pad_id: int = 0,
    shift_range: range | None = None,
    soft_shift_steps: float = 0.0,
    label_smoothing: float = 0.0,
    log_total: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The terms of :func:`token_cross_entropy`: (B, C, N) bool of counted tokens, and (B, C, N) losses that
    are 0 elsewhere."""
    assert logits.shape[:-1] == labels.shape
    scores = float_scores(logits)
    mask = labels != pad_id
    if soft_shift_steps > 0:
        assert shift_range, "soft shift targets need the shift tokens"
        picked = spread_scores(scores, labels, shift_range, gaussian_kernel(soft_shift_steps, scores))
    else:
        picked = scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    if label_smoothing > 0:
        picked = (1.0 - label_smoothing) * picked + label_smoothing * scores.mean(-1)
    losses = (log_totals(scores) if log_total is None else log_total) - picked
    return mask, torch.where(mask, losses, losses.new_zeros(()))
