"""Boundary term: a time that is a step off costs less than one that is ten off.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from .scores import float_scores, log_totals, mean_over, within
from .spread import spread_scores, triangular_kernel


def boundary_loss(
    logits: Tensor, labels: Tensor, *, shifts: range, width: int, log_total: Tensor | None = None
) -> Tensor:
    """Cross-entropy of the time-shift tokens against a target spread over the steps around.

    ::

        w(d) = 1 - |d| / (width + 1),  |d| <= width, cut at the first and last step and normalised
        L = mean over shift labels y of  -sum over d of w(d) log p(y + d)

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64; what is not to be learned is no shift (PAD).
        shifts: ids of the time-shift tokens, in order of time.
        width: steps to either side that get a share; 0 is the plain cross-entropy of the shift tokens.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar; 0, with zero gradients, when there is no shift label.
    """
    scores = float_scores(logits)
    total = log_totals(scores) if log_total is None else log_total
    spread = spread_scores(scores, labels, shifts, triangular_kernel(width, scores))
    return mean_over(total - spread, within(labels, shifts))
