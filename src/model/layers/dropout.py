"""Dropout (Srivastava et al. 2014) that costs a CPU little.

On a CPU, torch's dropout spends most of its time on random numbers, one of the Mersenne twister for each
element. Here torch's generator gives one number, which seeds a fast generator, and 16 bits of that decide an
element. So seeding torch's generator, its saved state and activation checkpointing work as usual. All that is
done to an element is done while it is in the cache. On a GPU and in compiled code dropout is torch's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 2**16
_PIECE = 2**15
"""Elements that pass through the cache at a time."""


def _is_active(x: Tensor, rate: float, training: bool) -> bool:
    """Whether there is something to drop, and here is where it is dropped."""
    return rate > 0.0 and training and x.device.type == "cpu" and not torch.compiler.is_compiling()


class Draws:
    """Independent decisions which elements to keep; one number of torch's generator seeds all of them.

    ``rate`` counts in steps of 1/65536 and is at least one of them; ``scale`` makes up for exactly that.
    """

    def __init__(self, rate: float) -> None:
        dropped = min(max(round(rate * _LEVELS), 1), _LEVELS - 1)
        self.scale = _LEVELS / (_LEVELS - dropped)
        """What kept elements are multiplied by, so that the mean stays."""
        self._end = _LEVELS // 2 - dropped
        self._stream = np.random.SFC64(int(torch.empty((), dtype=torch.int64).random_()))

    def _levels(self, shape: torch.Size) -> Tensor:
        count = shape.numel()
        bits = torch.from_numpy(self._stream.random_raw(-(-count // 4)).view(np.int16))
        return bits[:count].view(shape)

    def fill_kept(self, out: Tensor) -> Tensor:
        """1 where an element is kept, otherwise 0, in any type."""
        return torch.lt(self._levels(out.shape), self._end, out=out)

    def fill_signs(self, out: Tensor) -> Tensor:
        """A positive number (of float32 or float64) where an element is kept, otherwise a negative one."""
        return out.copy_(self._levels(out.shape)).sub_(self._end - 0.5).neg_()


class Dropout(nn.Dropout):
    """:func:`dropout` in training mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same."""
        return dropout(x, self.p, self.training)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + forward(y)`` with one pass less; both have the same shape."""
        if not (_is_active(y, self.p, self.training) and x.dtype == y.dtype):
            return x + self.forward(y)
        assert x.shape == y.shape, f"{tuple(x.shape)} is not the shape {tuple(y.shape)}"
        out: Tensor = _Dropped.apply(x, y, self.p)  # type: ignore[no-untyped-call]
        return out


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """``x`` with each element set to 0 with probability ``rate`` < 1, the others divided by ``1 - rate``."""
    if not _is_active(x, rate, training):
        return F.dropout(x, rate, training)
    out: Tensor = _Dropped.apply(None, x, rate)  # type: ignore[no-untyped-call]
    return out


class _Dropped(torch.autograd.Function):
    """``residual + dropout(x)``, which keeps a byte for each element."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor | None, x: Tensor, rate: float) -> Tensor:
        draws = Draws(rate)
        x = x.contiguous()
        kept = torch.empty_like(x, dtype=torch.uint8)
        out = torch.empty_like(x)
        added = [None] * len(pieces(x)) if residual is None else pieces(residual.contiguous())
        mask = x.new_empty(_PIECE)
        for one, base, keep, result in zip(pieces(x), added, pieces(kept), pieces(out), strict=True):
            factor = mask[: len(one)].copy_(draws.fill_kept(keep))
            if base is None:
                torch.mul(one, factor, out=result).mul_(draws.scale)
            else:
                torch.addcmul(base, one, factor, value=draws.scale, out=result)
        ctx.save_for_backward(kept)
        ctx.scale = draws.scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (kept,) = ctx.saved_tensors
        grad_x = torch.empty_like(kept, dtype=grad.dtype)
        mask = grad.new_empty(_PIECE)
        contiguous = grad.contiguous()
        for one, keep, result in zip(pieces(contiguous), pieces(kept), pieces(grad_x), strict=True):
            torch.mul(one, mask[: len(one)].copy_(keep), out=result).mul_(ctx.scale)
        return grad if ctx.needs_input_grad[0] else None, grad_x, None


def pieces(x: Tensor) -> tuple[Tensor, ...]:
    """The elements of a contiguous tensor in pieces for the cache, as views."""
    return torch.split(x.view(-1), _PIECE)
