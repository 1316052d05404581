"""Running statistics of normalisation layers, which each rank keeps for itself while it trains."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor, nn


def running_statistics(model: nn.Module) -> list[Tensor]:
    """The buffers that a forward in training mode changes: BatchNorm's and InstanceNorm's."""
    found: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            found += list(module.buffers(recurse=False))
    return found


def share_statistics(statistics: Sequence[Tensor], world_size: int) -> None:
    """Give every rank those of rank 0, in place. DDP does so only at the next forward in training mode."""
    if world_size > 1:
        for buffer in statistics:
            dist.broadcast(buffer, 0)
