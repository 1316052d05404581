"""Greedy decoding in its plain eager form, as the published system does it: the caches grow by
concatenation and ended rows stay in the batch until all have ended."""

from __future__ import annotations

import torch
from torch import Tensor

from amt.model.decoder import T5Decoder
from amt.model.decoder.t5 import T5DecoderLayer


def _heads(x: Tensor, num_heads: int) -> Tensor:
    return x.view(*x.shape[:-1], num_heads, -1).transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    scores = q @ k.transpose(2, 3) * scale
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@torch.inference_mode()
def decode(decoder: T5Decoder, memory: Tensor, lengths: Tensor, *, pad_id: int, eos_id: int) -> Tensor:
    """Ids (B, N) from memory (B, T, D); row ``i`` ends at ``lengths[i]`` tokens whatever the network says."""
    layers = [layer for layer in decoder.layers if isinstance(layer, T5DecoderLayer)]
    heads = layers[0].self_attention.num_heads
    cross = [
        (_heads(layer.cross_attention.k(memory), heads), _heads(layer.cross_attention.v(memory), heads))
        for layer in layers
    ]
    own: list[tuple[Tensor, Tensor] | None] = [None] * len(layers)
    ids = torch.full((len(memory), 1), pad_id, dtype=torch.int64)
    done = torch.zeros(len(memory), dtype=torch.bool)
    for step in range(int(lengths.max())):
        x = decoder.embed(ids[:, -1:])
        bias = None
        if decoder.relative_bias is None:
            x = x + decoder.positions[step]
        else:
            bias = decoder.distance_bias(step + 1).flip(1)[None, :, None]
        for number, layer in enumerate(layers):
            attention = layer.self_attention
            y = layer.self_norm(x)
            q, k, v = (_heads(part(y), heads) for part in (attention.q, attention.k, attention.v))
            past = own[number]
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            own[number] = (k, v)
            x = x + attention.o(_attend(q, k, v, bias, attention.scale))
            attention = layer.cross_attention
            q = _heads(attention.q(layer.cross_norm(x)), heads)
            x = x + attention.o(_attend(q, *cross[number], None, attention.scale))
            x = x + layer.feed_forward(layer.ff_norm(x))
        logits = decoder.lm_head(decoder.final_norm(x))[:, 0]
        logits[:, eos_id] = float("-inf")
        tokens = logits.argmax(-1).masked_fill(lengths == step + 1, eos_id).masked_fill(done, pad_id)
        ids = torch.cat([ids, tokens[:, None]], 1)
        done |= tokens == eos_id
    return ids[:, 1:]
