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
    """Id of the lowest of ``pitches``, consecutive ones, in each label's pitch class.

    Labels that are no pitch give some pitch too.
    """
    return pitches.start + (labels - pitches.start) % NUM_PITCH_CLASSES


def octave_scores(scores: Tensor, labels: Tensor, pitches: range) -> Tensor:
    """Of each label, the logarithm of the sum of exp over the pitches of its class: (..,) of scores (.., V).

    ``pitches`` are ids of consecutive pitches; labels that are none give the score of some class.
    """
    octaves = torch.arange(0, len(pitches), NUM_PITCH_CLASSES, device=labels.device)
    lowest = lowest_of_class(labels, pitches).unsqueeze(-1)
    members = lowest + octaves
    exist = members < pitches.stop
    found = scores.gather(-1, torch.where(exist, members, lowest))
    return log_totals(found.masked_fill(~exist, torch.finfo(scores.dtype).min))


def mean_over(values: Tensor, counted: Tensor) -> Tensor:
    """Mean of the counted values; 0, with zero gradients, where none is. Others may be anything but NaN."""
    return torch.where(counted, values, values.new_zeros(())).sum() / counted.sum().clamp(min=1)
