"""Chroma term: the pitch class is right, whatever the octave.

Axes: B batch, C channels, N tokens, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from .scores import float_scores, log_totals, mean_over, octave_scores, within


def chroma_loss(logits: Tensor, labels: Tensor, *, pitches: range, log_total: Tensor | None = None) -> Tensor:
    """Cross-entropy of the pitch class of the pitch tokens.

    The probabilities of the pitch tokens are folded into 12 classes::

        P(c) = sum over pitches q, q mod 12 = c, of p(q)
        L = mean over pitch labels y of  -log P(y mod 12)

    p is the softmax over the whole vocabulary, so that the term also says that a pitch stands here.

    Args:
        logits: (B, C, N, V) in any float type.
        labels: (B, C, N) int64; what is not to be learned is no pitch (PAD).
        pitches: ids of the pitch tokens from pitch 0 (a C) on. Drums have ids of their own.
        log_total: (B, C, N) of :func:`~.scores.log_totals`, when it is known.

    Returns:
        Scalar; 0, with zero gradients, when there is no pitch label.
    """
    scores = float_scores(logits)
    total = log_totals(scores) if log_total is None else log_total
    return mean_over(total - octave_scores(scores, labels, pitches), within(labels, pitches))
