"""The decoder's matrices made ready for decoding: fused, norms multiplied in, in a chosen number format.

Axes: D width, H heads, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers.experts import MixtureOfExperts
from ..layers.norms import T5_NORM_EPS
from .products import Product, build_product, resolve_precision
from .t5 import T5Decoder, T5DecoderLayer


class RowNorm:
    """RMS norm without its weight and without the factor sqrt(D), which the matrix behind it takes."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.gain = width**0.5
        self._floor = torch.tensor((width * T5_NORM_EPS) ** 0.5, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        """x (M, D) over the root of its sum of squares and D·eps."""
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return x / torch.hypot(length, self._floor)


@dataclass
class LayerWeights:
    """One layer: queries, keys and values in one product, both gates in one."""

    qkv: Product
    self_out: Product
    cross_q: Product
    cross_kv: Tensor
    """(2·H·d, D): keys and values of the memory, computed once per row."""
    cross_out: Product
    feed_forward: Callable[[Tensor], Tensor]
    """The residual x (M, D) → what is added to it."""


class DecoderWeights:
    """What :class:`~.state.DecodingState` computes with. Made from a decoder as it is at that moment.

    Args:
        decoder: the network.
        precision: ``32``, ``bf16``, ``int8`` or ``auto`` (bf16 on a GPU, 32 on a CPU); ``None`` is the type
            of the parameters, or under autocast the type of autocast.

    Attributes:
        dtype: of the caches.
    """

    def __init__(self, decoder: T5Decoder, precision: str | None = None) -> None:
        device = decoder.embed.weight.device
        if precision is not None:
            precision = resolve_precision(precision, device)
        self.dtype = _dtype(decoder, precision)
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            self._build(decoder, device, precision == "int8")

    def _build(self, decoder: T5Decoder, device: torch.device, int8: bool) -> None:
        layers = [layer for layer in decoder.layers if isinstance(layer, T5DecoderLayer)]
        attention = layers[0].self_attention
        self.num_heads = attention.num_heads
        self.head_width = attention.q.weight.shape[0] // self.num_heads
        self.max_length = decoder.max_length
        self.embed = decoder.embed.weight.detach()
        self.positions = decoder.positions if decoder.relative_bias is None else None
        self.norm = RowNorm(self.embed.shape[1], device)

        def product(weight: Tensor) -> Product:
            return build_product(weight, self.dtype, int8)

        self.layers = [self._layer(layer, product) for layer in layers]
        gain = self.norm.gain * decoder.logit_scale
        self.head = product(decoder.lm_head.weight * (decoder.final_norm.weight * gain))
        self.reversed_bias: Tensor | None = None
        """(H, max_length): bias of the keys up to a query, the query's own last."""
        if decoder.relative_bias is not None:
            self.reversed_bias = decoder.distance_bias(decoder.max_length).flip(1).to(self.dtype)

    def _layer(self, layer: T5DecoderLayer, product: Callable[[Tensor], Product]) -> LayerWeights:
        own, cross = layer.self_attention, layer.cross_attention
        own_gain, cross_gain = (norm.weight * self.norm.gain for norm in (layer.self_norm, layer.cross_norm))
        qkv = torch.cat([own.q.weight * own.scale, own.k.weight, own.v.weight])
        return LayerWeights(
            product(qkv * own_gain),
            product(own.o.weight),
            product(cross.q.weight * (cross_gain * cross.scale)),
            torch.cat([cross.k.weight, cross.v.weight]).to(self.dtype),
            product(cross.o.weight),
            self._feed_forward(layer, product),
        )

    def _feed_forward(
        self, layer: T5DecoderLayer, product: Callable[[Tensor], Product]
    ) -> Callable[[Tensor], Tensor]:
        ff, norm = layer.feed_forward, self.norm
        if isinstance(ff, MixtureOfExperts):
            experts = ff  # in the type of the parameters, whatever the precision
            return lambda x: experts(x)[0]
        assert layer.ff_norm is not None
        gates = product(torch.cat([ff.wi_0.weight, ff.wi_1.weight]) * (layer.ff_norm.weight * norm.gain))
        out = product(ff.wo.weight)

        def gated(x: Tensor) -> Tensor:
            gate, value = gates(norm(x)).chunk(2, dim=1)
            return out(_gelu(gate).mul_(value))

        return gated


def _gelu(x: Tensor) -> Tensor:
    """``gelu_new``: half of 1 + tanh is a sigmoid, with which a CPU takes half the time of its own kernel."""
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return F.gelu(x, approximate="tanh")
    slope = 2.0 * math.sqrt(2.0 / math.pi)
    inner = torch.addcmul(torch.tensor(slope), x, x, value=0.044715 * slope)
    return inner.mul_(x).sigmoid_().mul_(x)


def _dtype(decoder: T5Decoder, precision: str | None) -> torch.dtype:
    if precision is not None:
        return torch.bfloat16 if precision == "bf16" else torch.float32
    weight = decoder.embed.weight
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
