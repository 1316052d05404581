"""Blank term: no silence where the label has notes.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .scores import float_scores, log_totals, mean_over, within


def blank_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    ties: range,
    eos_id: int,
    pad_id: int = 0,
    log_total: Tensor | None = None,
) -> Tensor:
    """Probability of an empty sequence where the label is not empty.

    The first body token is the one after ``tie``, which closes the tie section; a body is empty when it is
    EOS::

        L = mean over segments of  relu(p(EOS at the first body token) - [label empty])

    A segment is one sequence, so a sample of C channels has C of them. Where the label is empty the term is
    0: the cross-entropy teaches that, and this term only keeps a network from giving up on notes.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64; a sequence whose tie or first body token is PAD is left out.
        ties: ids of the tie token.
        eos_id: the end token.
        pad_id: label that is left out.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar; 0, with zero gradients, when every sequence is left out.
    """
    scores = float_scores(logits)
    total = log_totals(scores) if log_total is None else log_total
    length = labels.shape[-1]
    is_tie = within(labels, ties)
    place = is_tie.int().argmax(-1, keepdim=True) + 1
    inside = place.clamp(max=length - 1)
    label = labels.gather(-1, inside)
    known = is_tie.any(-1, keepdim=True) & (place < length) & (label != pad_id)
    end = scores[..., eos_id].gather(-1, inside) - total.gather(-1, inside)
    return mean_over(torch.relu(torch.exp(end) - (label == eos_id).to(end)), known)
