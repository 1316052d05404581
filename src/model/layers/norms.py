"""Layer norms by the names of the configuration.

Axes: D width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...config import unknown_name

ENCODER_NORM_EPS = 1e-5
T5_NORM_EPS = 1e-6


class _RMSNormFunction(torch.autograd.Function):
    """RMS norm with its gradient in few passes; the CPU has no fused kernel and autograd needs twelve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().mul_(1.0 / x.shape[-1])
        inverse = mean_square.add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, inverse)
        out: Tensor = (x * inverse).mul_(weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, inverse = ctx.saved_tensors
        # The kernel of the layer norm, told that the mean is 0, gives all terms but that of the mean; this
        # one is then taken back.
        grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, weight.shape, torch.zeros_like(inverse), inverse, weight, None, [True, True, False]
        )
        mean = (grad @ weight)[..., None].mul_(1.0 / x.shape[-1]).mul_(inverse)
        return grad_x.add_(mean), grad_weight, None


class RMSNorm(nn.Module):
    """``w · x / sqrt(mean(x²) + eps)`` over the last axis, in float32 (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D), in the type of ``x``."""
        y = x.float()
        if y.device.type == "cpu" and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            with torch.autocast("cpu", enabled=False):
                out: Tensor = _RMSNormFunction.apply(y, self.weight, self.eps)  # type: ignore[no-untyped-call]
        else:
            out = F.rms_norm(y, self.weight.shape, self.weight, self.eps)
        return out.to(x.dtype)


def make_norm(norm_type: str, width: int) -> nn.Module:
    """``layer_norm`` (with bias) or ``rms_norm`` for the encoder.

    Raises:
        ValueError: no norm has that name.
    """
    if norm_type == "layer_norm":
        return nn.LayerNorm(width, eps=ENCODER_NORM_EPS)
    if norm_type == "rms_norm":
        return RMSNorm(width, ENCODER_NORM_EPS)
    raise unknown_name("layer norm type", norm_type, ("layer_norm", "rms_norm"))
