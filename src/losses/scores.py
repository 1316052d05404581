"""What the terms over token logits share.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

NUM_PITCH_CLASSES = 12


def float_scores(logits: Tensor) -> Tensor:
    """Logits in the precision of losses: float32, whatever the network runs in; float64 stays."""
    return logits if logits.dtype == torch.float64 else logits.float()


def log_totals(scores: Tensor) -> Tensor:
    """(..,) logarithm of the sum of exp over the last axis: a logit minus this is a log-probability."""
    return torch.logsumexp(scores, dim=-1)


def within(labels: Tensor, ids: range) -> Tensor:
    """Which labels lie in a range of ids: bool of their shape."""
    assert ids.step == 1
    return (labels >= ids.start) & (labels < ids.stop)


def lowest_of_class(labels: Tensor, pitches: range) -> Tensor:
    """Id of the lowest pitch of each label's pitch class, ``pitches`` being those from pitch 0 on.

    Labels that are no pitch give some pitch too.
    """
    return pitches.start + (labels - pitches.start) % NUM_PITCH_CLASSES


def mean_over(values: Tensor, counted: Tensor) -> Tensor:
    """Mean of the counted values; 0, with zero gradients, where none is. Others may be anything but NaN."""
    return torch.where(counted, values, values.new_zeros(())).sum() / counted.sum().clamp(min=1)
