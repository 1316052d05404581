"""Products with fixed matrices for decoding, in the number format and layout that is fastest where they run.

One token per row makes thin products whose cost is reading the matrices. On a CPU they are stored by rows of
inputs and not, as for training, of outputs: a tenth less time.

Axes: M rows, K inputs, N outputs.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...config.inference import DECODE_PRECISIONS
from ...config.names import unknown_name

_SPARE_COLUMNS = 16
"""Floats of a cache line. Rows that are a power of two apart would share few places of the cache."""


class Product(Protocol):
    """A fixed matrix: x (M, K) → (M, N)."""

    def __call__(self, x: Tensor) -> Tensor: ...


class RowProduct:
    """float32 on a CPU: the matrix by rows of one input each, a cache line between them."""

    def __init__(self, weight: Tensor) -> None:
        num_outputs, num_inputs = weight.shape
        rows = weight.new_empty((num_inputs, num_outputs + _SPARE_COLUMNS))
        self.weight = rows[:, :num_outputs].copy_(weight.t())

    def __call__(self, x: Tensor) -> Tensor:
        """x (M, K) → (M, N)."""
        return torch.mm(x, self.weight)


class CastProduct:
    """Any floating type: the input is cast to the type of the matrix."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """x (M, K) → (M, N) in the type of the matrix."""
        return F.linear(x.to(self.weight.dtype), self.weight)


class Int8Product:
    """8-bit integers on a CPU: weights scaled per output, inputs per call (dynamic quantisation)."""

    def __init__(self, weight: Tensor) -> None:
        weight = weight.float()
        scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        # Plain tensor functions, which the stubs of torch leave untyped.
        quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantized, None)

    def __call__(self, x: Tensor) -> Tensor:
        """x (M, K) → (M, N) float32."""
        out: Tensor = torch.ops.quantized.linear_dynamic(x.contiguous(), self.packed)
        return out


def resolve_precision(name: str, device: torch.device) -> str:
    """``auto`` is bf16 on a GPU and 32 on a CPU.

    Raises:
        ValueError: an unknown name, or int8 elsewhere than on a CPU.
    """
    if name not in DECODE_PRECISIONS:
        raise unknown_name("decode precision", name, DECODE_PRECISIONS)
    if name == "auto":
        return "bf16" if device.type == "cuda" else "32"
    if name == "int8" and device.type != "cpu":
        raise ValueError(f"--decode-precision int8 is for CPUs, not {device.type}: use bf16 there")
    return name


def build_product(weight: Tensor, dtype: torch.dtype, int8: bool = False) -> Product:
    """The product with ``weight`` (N, K) in the form for its device."""
    if int8:
        return Int8Product(weight)
    if weight.device.type == "cpu" and dtype == torch.float32:
        return RowProduct(weight.to(dtype))
    return CastProduct(weight, dtype)
