"""Activation checkpointing: compute a layer again on the way back instead of keeping what it made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from .modes import in_modes, modes


class LayerStack(nn.Module):
    """Runs layers of which each may be computed twice (Chen et al. 2016, "Training Deep Nets with Sublinear
    Memory Cost")."""

    recompute = False
    """Keep only the inputs of layers for the gradient. Dropout draws the same numbers both times, and batch
    norm counts a batch once."""

    def run_layer(self, layer: nn.Module, *inputs: Any) -> Any:
        """``layer(*inputs)``."""
        if not (self.recompute and torch.is_grad_enabled()):
            return layer(*inputs)
        norms = [module for module in layer.modules() if isinstance(module, _BatchNorm)]
        first = modes(layer)  # on the way back the layer may be in another mode than now

        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            return nullcontext(), _again(first, norms)

        return checkpoint(layer, *inputs, use_reentrant=False, context_fn=contexts)


@contextmanager
def _again(first: dict[nn.Module, bool], norms: list[_BatchNorm]) -> Iterator[None]:
    """The second computation of a layer."""
    with in_modes(first), _statistics_kept(norms):
        yield


@contextmanager
def _statistics_kept(norms: list[_BatchNorm]) -> Iterator[None]:
    """Running statistics do not move. (They may not be switched off: the layer would save fewer tensors.)"""
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked = norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
