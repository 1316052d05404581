"""Perceiver-TF against the published vectors and against plain arithmetic."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amt.config import PerceiverTFConfig
from amt.config.perceiver import ACTIVATIONS, ENCODER_POSITIONS, FF_TYPES, NORM_TYPES
from amt.model.encoder.attention import SelfAttention, SpectralCrossAttention
from amt.model.encoder.perceiver_tf import PerceiverTF
from amt.model.layers.positions import FRAME_BASE, sinusoids

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
PUBLISHED = json.loads((GOLDEN / "ptf_configs.json").read_text())


@pytest.fixture
def published(golden, fill_published, published_encoder):
    """An encoder of the published system, its input and its output."""
    vectors = golden("ptf_modules")

    def load(name):
        x = vectors[f"{name}/x"]
        encoder = PerceiverTF(published_encoder(PUBLISHED[name]), 9, x.shape[2], x.shape[3]).eval()
        fill_published(encoder, "encoder.")
        return encoder, x, vectors[f"{name}/y"]

    return load


@pytest.mark.parametrize("name", PUBLISHED)
def test_matches_published(published, name):
    encoder, x, y = published(name)
    torch.testing.assert_close(encoder(x), y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "rope" not in name and "alibi" not in name])
def test_both_ways_of_cross_attention_match_published(published, name):
    encoder, x, y = published(name)
    for block in encoder.blocks:
        block.cross_attention.fold = not block.cross_attention.fold
    torch.testing.assert_close(encoder(x), y, atol=1e-5, rtol=1e-5)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).movedim(-2, 0)


def plain_attention(part, queries, keys):
    """softmax(q kᵀ / sqrt(d)) v over the last two axes, one head at a time."""
    out = []
    for q, k, v in zip(
        heads(part.query(queries), part.num_heads),
        heads(part.key(keys), part.num_heads),
        heads(part.value(keys), part.num_heads),
        strict=True,
    ):
        out.append((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v)
    return part.output(torch.cat(out, -1))


MIXED = PerceiverTFConfig(
    num_latents=3, d_latent=12, d_model=16, qk_channels=32, v_channels=24, num_heads=4, dropout=0.0
)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_cross_attention_mixed_widths(fold, norm_type):
    part = SpectralCrossAttention(replace(MIXED, norm_type=norm_type), 12, 7, 10, 16)
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    part.fold = fold
    z, x = torch.randn(1, 5, 3, 12, requires_grad=True), torch.randn(2, 5, 7, 10, requires_grad=True)
    y = part(z, x)
    expected = plain_attention(part, part.query_norm(z).expand(2, -1, -1, -1), part.key_norm(x))
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)
    gradient = torch.randn_like(y)
    inputs = [z, x, *part.parameters()]
    got = torch.autograd.grad(y, inputs, gradient)
    torch.testing.assert_close(got, torch.autograd.grad(expected, inputs, gradient), atol=1e-4, rtol=1e-4)


def test_cross_attention_chooses_the_cheaper_way(quick_model):
    published = SpectralCrossAttention(PerceiverTFConfig(num_latents=26), 128, 128, 128, 128)
    assert not published.fold
    quick = SpectralCrossAttention(quick_model.encoder, 64, 27, 32, 64)
    assert quick.fold


def test_dropout_on_probabilities_uses_the_usual_way():
    config = replace(MIXED, dropout=0.5)
    part = SpectralCrossAttention(config, 12, 7, 10, 16)
    part.fold = True
    z, x = torch.randn(1, 1, 3, 12), torch.randn(2, 5, 7, 10)
    assert not torch.allclose(part(z, x), part(z, x))
    part.eval()
    assert torch.equal(part(z, x), part(z, x))


@pytest.mark.parametrize("over_time", [False, True])
def test_self_attention_mixed_widths(over_time):
    part = SelfAttention(MIXED, over_time)
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    z = torch.randn(2, 5, 3, 16)
    x = part.norm(z)
    x = x.transpose(1, 2) if over_time else x
    y = plain_attention(part, x, x)
    torch.testing.assert_close(part(z), z + (y.transpose(1, 2) if over_time else y), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ENCODER_POSITIONS)
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_every_option_is_built(positions, norm_type):
    for i, activation in enumerate(ACTIVATIONS[:3]):
        config = replace(
            MIXED,
            num_blocks=2,
            num_local_layers=i,
            num_temporal_layers=(i + 1) % 2 + 1,
            position_encoding=positions,
            norm_type=norm_type,
            hidden_act=activation,
            ff_type=FF_TYPES[i],
            attention_to_channel=i % 2 == 0,
            sca_feed_forward=i % 2 == 1,
        )
        encoder = PerceiverTF(config, 6, 7, 10)
        y = encoder(torch.randn(2, 5, 7, 10))
        assert y.shape == (2, 5, 3, 16)
        y.square().sum().backward()
        assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_no_layers_still_reads_the_spectrum():
    config = replace(MIXED, num_blocks=1, num_local_layers=0, num_temporal_layers=0, position_encoding="none")
    encoder = PerceiverTF(config, 6, 7, 10)
    x = torch.randn(2, 5, 10, 7)
    assert encoder(x.transpose(2, 3)).shape == (2, 5, 3, 16)


def test_positions():
    encoder = PerceiverTF(replace(MIXED, position_encoding="trainable"), 6, 7, 10)
    assert encoder.positions.shape == (16, 3, 12)
    with pytest.raises(ValueError, match="17 frames"):
        encoder(torch.randn(1, 17, 7, 10))
    encoder = PerceiverTF(replace(MIXED, position_encoding="sinusoidal"), 6, 7, 10)
    torch.testing.assert_close(encoder.frame_positions, 0.5 * sinusoids(torch.arange(16), 12, FRAME_BASE))
    assert not [key for key in encoder.state_dict() if "frame_positions" in key]
    encoder = PerceiverTF(replace(MIXED, position_encoding="none"), 6, 7, 10)
    assert encoder(torch.randn(1, 40, 7, 10)).shape == (1, 40, 3, 16)


def test_start_of_weights():
    encoder = PerceiverTF(PerceiverTFConfig(), 110, 128, 128)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Linear):
            assert abs(float(module.weight.std()) - 0.02) < 0.001
            assert not module.bias.any()
    assert abs(float(encoder.latents.std()) - 0.02) < 0.002
    assert abs(float(encoder.positions.std()) - 0.02) < 0.001
