"""Which tokens of a label are taught: not task tokens, and nothing that the annotation does not say.

Axes: B batch, C channels, N tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from .scores import within


@dataclass(frozen=True)
class LabelMask:
    """Puts PAD, which every term leaves out, in place of label tokens that are given or not known.

    The task tokens of a sub-task are given: the decoder reads them and does not learn to write them. A
    channel whose instruments are not annotated has no true label at all. Where only some of its instruments
    are annotated, the notes in its label are true but what stands between them is not: another note may be
    missing there. Then the tokens that pass over time and instruments (shift, program, tie, EOS) are left
    out, and pitches, velocities and drums stay.
    """

    pad_id: int
    given: range
    """Ids of the task tokens."""
    passing: Sequence[range]
    """Ids of the tokens that say "nothing until here"."""

    def __call__(self, labels: Tensor, annotated: Tensor | None, complete: Tensor | None) -> Tensor:
        """Labels (B, C, N) as the terms of the objective read them.

        Args:
            labels: as the decoder reads them.
            annotated: (B, C) bool, False for channels without a true label; None: none.
            complete: (B, C) bool, False for channels whose label may lack notes; None: none.
        """
        if self.given:
            labels = labels.masked_fill(within(labels, self.given), self.pad_id)
        if complete is not None:
            doubtful = ~complete.unsqueeze(-1)
            for ids in self.passing:
                labels = labels.masked_fill(doubtful & within(labels, ids), self.pad_id)
        if annotated is not None:
            labels = labels.masked_fill(~annotated.unsqueeze(-1), self.pad_id)
        return labels
