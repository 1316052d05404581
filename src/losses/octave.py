"""Octave term: the notes of a sample may all be written in another octave. And labels that do not say it.

Axes: B batch, C channels, N tokens, V vocabulary, O octave shifts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .scores import NUM_PITCH_CLASSES, float_scores, log_totals, lowest_of_class, mean_over, within

OCTAVE_SHIFTS = (0, 12, -12, 24, -24)
"""Semitones."""


def octave_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    pitches: range,
    samples: Tensor | None = None,
    log_total: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of the pitch tokens at the octave that fits the whole sample best.

    ::

        L = mean over samples b of  min over s in {0, 12, -12, 24, -24} of
            mean over pitch labels y of b, y + s in 0..127, of  -log p(y + s)

    One shift holds for all channels and notes of a sample, so it cannot repair notes one by one. Labels
    that a shift moves out of the pitches are left out of its mean, and a shift that leaves none is no
    candidate. The gradient is that of the smallest mean.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64; what is not to be learned is no pitch (PAD).
        pitches: ids of the pitch tokens, in order. Drums have ids of their own and never count.
        samples: (B,) bool, which samples have the term; None: all.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar, the mean over the chosen samples with a pitch; 0, with zero gradients, when there is none.
    """
    scores = float_scores(logits)
    total = log_totals(scores) if log_total is None else log_total
    targets = labels.unsqueeze(-1) + torch.tensor(OCTAVE_SHIFTS, device=labels.device)
    counted = within(labels, pitches).unsqueeze(-1) & within(targets, pitches)
    losses = total.unsqueeze(-1) - scores.gather(-1, torch.where(counted, targets, labels.unsqueeze(-1)))
    losses = torch.where(counted, losses, losses.new_zeros(()))
    counts = counted.sum((1, 2))
    means = (losses.sum((1, 2)) / counts.clamp(min=1)).masked_fill(counts == 0, torch.inf)
    chosen = counts[:, 0] > 0
    if samples is not None:
        chosen = chosen & samples.to(chosen.device)
    return mean_over(means.min(-1).values, chosen)


def without_octaves(labels: Tensor, samples: Tensor, pitches: range) -> Tensor:
    """Labels whose pitch tokens, in some samples, stand in an octave of their own drawn at random.

    A decoder that reads labels of an octave that is not true learns to go on in it, and the octave term then
    finds the label's octave the likeliest. From these it learns the pitch classes of the notes before and
    has to hear the octave. Draws are those of torch's global generator.

    Args:
        labels: (B, C, N) int64.
        samples: (B,) bool, the samples that are changed.
        pitches: ids of the pitch tokens from pitch 0 on.
    """
    lowest = lowest_of_class(labels, pitches)
    num_octaves = (pitches.stop - 1 - lowest) // NUM_PITCH_CLASSES + 1
    octave = (torch.rand(labels.shape, device=labels.device) * num_octaves).long()
    chosen = within(labels, pitches) & samples.view(-1, 1, 1)
    return torch.where(chosen, lowest + NUM_PITCH_CLASSES * octave, labels)
