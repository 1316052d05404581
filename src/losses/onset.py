"""Onset term: as many notes begin as in the reference.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .scores import float_scores, log_totals, mean_over, within


def onset_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    pitches: range,
    velocities: range,
    drums: range = range(0),
    pad_id: int = 0,
    log_total: Tensor | None = None,
) -> Tensor:
    """Distance of the expected number of onsets from the true one.

    A pitch token begins a note where the last velocity token before it is "on" (in the tie section there is
    none before), a drum token always does. With S(n) the tokens that begin a note at position n, and R the
    number of labels that do::

        E = sum over n of  sum over q in S(n) of  p_n(q)
        L = mean over segments of  smooth_l1(E - R) / (R + 1)

    smooth_l1 is quadratic below 1 and linear above. A segment is one sequence, so a sample of C channels has
    C of them.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64, read by the network too; positions that are PAD are left out.
        pitches: ids of the pitch tokens.
        velocities: ids of the velocity tokens, off and on.
        drums: ids of the drum tokens; empty when the task has none.
        pad_id: label that is left out.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar; 0, with zero gradients, when every label is PAD.
    """
    assert len(velocities) == 2, "off and on"
    scores = float_scores(logits)
    total = (log_totals(scores) if log_total is None else log_total).unsqueeze(-1)
    known = labels != pad_id
    on = _is_on(labels, velocities)
    mass = torch.where(on, _mass(scores, total, pitches), 0.0)
    begins = within(labels, pitches) & on
    if drums:
        mass = mass + _mass(scores, total, drums)
        begins = begins | within(labels, drums)
    expected = torch.where(known, mass, 0.0).sum(-1)
    reference = begins.sum(-1).to(expected)
    distance = F.smooth_l1_loss(expected, reference, reduction="none") / (reference + 1.0)
    return mean_over(distance, known.any(-1))


def _mass(scores: Tensor, total: Tensor, ids: range) -> Tensor:
    """(B, C, N) probability of the ids together."""
    return torch.exp(scores[..., ids.start : ids.stop] - total).sum(-1)


def _is_on(labels: Tensor, velocities: range) -> Tensor:
    """(B, C, N) bool: the last velocity token before each position is "on"; none before is off."""
    places = torch.arange(1, labels.shape[-1] + 1, device=labels.device)
    # Places grow, so the running maximum is the last velocity token; its parity says which one.
    marks = torch.where(within(labels, velocities), 2 * places + (labels - velocities.start), 0)
    last = F.pad(marks.cummax(-1).values, (1, 0))[..., :-1]
    return last % 2 == 1
