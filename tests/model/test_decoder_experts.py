"""Mixture of experts in the decoder (``-dff moe``)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from amt.config import T5DecoderConfig
from amt.model.decoder import T5Decoder, greedy_decode


def make(**changes):
    config = {"d_model": 24, "num_heads": 3, "d_kv": 8, "num_layers": 2, "ff_type": "moe", "dropout": 0.0}
    return T5Decoder(T5DecoderConfig(**(config | changes)), 40, 30).eval()


def test_size_as_published():
    """113.8 M with the table of 1034 positions, which is no parameter here."""
    with torch.device("meta"):
        decoder = T5Decoder(T5DecoderConfig(ff_type="moe"), 596, 1034)
    own = [p.numel() for name, p in decoder.named_parameters() if not name.startswith(("embed.", "lm_head."))]
    assert sum(own) + 1034 * 512 == 113_817_088


def test_layer_against_plain_arithmetic():
    decoder = make(num_layers=1, moe_num_experts=4, moe_topk=2, moe_act="gelu")
    layer = decoder.layers[0]
    assert layer.ff_norm is None
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    y = layer.self_norm(x)
    z = x + layer.self_attention(y, y, causal=True)
    z = z + layer.cross_attention(layer.cross_norm(z), memory)
    moe = layer.feed_forward
    weights, chosen = moe.gate(z).softmax(-1).topk(2)
    weights = weights / weights.sum(-1, keepdim=True)
    expected = z.clone()
    for b in range(2):
        for n in range(5):
            for weight, e in zip(weights[b, n], chosen[b, n].tolist(), strict=True):
                own = moe.experts
                hidden = F.gelu(own.w1[e] @ z[b, n]) * (own.gate[e] @ z[b, n])
                expected[b, n] += weight * (own.w2[e] @ hidden)
    torch.testing.assert_close(layer(x, memory, None), expected, atol=1e-5, rtol=1e-4)


def test_greedy_says_what_teacher_forcing_says():
    decoder = make()
    torch.nn.init.normal_(decoder.lm_head.weight)
    memory = torch.randn(3, 6, 24)
    ids = greedy_decode(decoder, memory, 20, pad_id=0, eos_id=1)
    logits = decoder(F.pad(ids[:, :-1], (1, 0)), memory)
    length = (ids != 0).sum(-1)
    for row, best, stop in zip(ids, logits.argmax(-1), length.tolist(), strict=True):
        assert torch.equal(row[:stop], best[:stop])
    assert len(set(ids.flatten().tolist())) > 5


def test_all_experts_learn():
    decoder = make(moe_num_experts=3).train()
    decoder(torch.randint(2, 40, (4, 20)), torch.randn(4, 6, 24)).square().mean().backward()
    for layer in decoder.layers:
        for weight in layer.feed_forward.parameters():
            assert weight.grad is not None
            assert bool(weight.grad.flatten(1).norm(dim=1).gt(0).all())
