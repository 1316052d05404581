"""The network as it was when the stage began: what the KL term holds on to.

A whole second copy of the weights, made only when that term is asked for, and written into checkpoints, so
that a resumed run holds on to the same policy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from ..model import Transcriber
from .rollout import clean_logits


class StartPolicy:
    """Remembers ``model`` as it is at the first use, or as :meth:`load` says."""

    def __init__(self, model: Transcriber) -> None:
        self._model = model
        self._copy: Transcriber | None = None
        self._loaded: Mapping[str, Tensor] | None = None

    @torch.no_grad()
    def logits(self, audio: Tensor, rows: Tensor, num_samples: int, ids: Tensor) -> Tensor:
        """(K·R, N, V) logits of decoded rows ``ids`` (K·R, N).

        Args:
            audio: (B, 1, S).
            rows: (R,) channels of segments, counted over both.
            num_samples: K, the rows ``ids`` has of each, all rows once before any comes again.
            ids: tokens.
        """
        network = self._frozen()
        return clean_logits(network, network.encode(audio).memory[rows].repeat(num_samples, 1, 1), ids)

    def _frozen(self) -> Transcriber:
        if self._copy is None:
            self._copy = copy.deepcopy(self._model).eval().requires_grad_(False)
            self._copy.zero_grad(set_to_none=True)
            self._copy.recompute_activations(False)
            if self._loaded is not None:
                self._copy.load_state_dict(self._loaded)
                self._loaded = None
        return self._copy

    def state(self) -> dict[str, Tensor]:
        """Its weights; empty before the first use."""
        if self._copy is not None:
            return self._copy.state_dict()
        return {} if self._loaded is None else dict(self._loaded)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        self._copy, self._loaded = None, weights or None
