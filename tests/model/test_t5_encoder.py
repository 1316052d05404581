"""The T5 encoder against that of transformers."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import T5Config, T5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention

from amt.config import T5EncoderConfig
from amt.model.encoder.t5 import T5Encoder
from amt.model.layers.positions import sinusoids, two_sided_buckets


def make(position_encoding="trainable", width=24):
    config = T5EncoderConfig(num_heads=3, d_kv=8, num_layers=2, d_ff=40, position_encoding=position_encoding)
    return T5Encoder(config, width, 150)


def test_buckets_against_transformers():
    offset = torch.arange(-600, 601)
    assert torch.equal(two_sided_buckets(offset), T5Attention._relative_position_bucket(offset))


def test_against_transformers():
    theirs = T5EncoderModel(
        T5Config(
            vocab_size=10,
            d_model=24,
            d_kv=8,
            d_ff=40,
            num_layers=2,
            num_heads=3,
            feed_forward_proj="gated-gelu",
        )
    ).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
    ours = make().eval()
    state = {}
    for name, value in theirs.encoder.state_dict().items():
        for old, new in [
            ("block.0.layer.0.SelfAttention.relative_attention_bias", "relative_bias"),
            ("block.", "layers."),
            ("layer.0.layer_norm", "self_norm"),
            ("layer.1.layer_norm", "ff_norm"),
            ("layer.0.SelfAttention", "self_attention"),
            ("layer.1.DenseReluDense", "feed_forward"),
            ("final_layer_norm", "final_norm"),
        ]:
            name = name.replace(old, new)
        if not name.startswith("embed_tokens"):
            state[name] = value
    ours.load_state_dict(state)
    x = torch.randn(2, 140, 24)
    expected = theirs(inputs_embeds=x).last_hidden_state
    torch.testing.assert_close(ours(x), expected, atol=1e-4, rtol=1e-4)


def test_kinds_of_positions():
    sinusoidal, none = make("sinusoidal").eval(), make("none").eval()
    none.load_state_dict(sinusoidal.state_dict())
    x = torch.randn(2, 20, 24)
    torch.testing.assert_close(sinusoidal(x), none(x + sinusoids(torch.arange(20), 24)))
    assert torch.allclose(none(x).flip(1), none(x.flip(1)), atol=1e-5)
    with pytest.raises(ValueError, match="more than the 160"):
        sinusoidal(torch.randn(1, 161, 24))


def test_start_as_published():
    model = T5Encoder(T5EncoderConfig(num_layers=1, position_encoding="trainable"), 512, 100)
    layer = model.layers[0]
    expected = {
        layer.self_attention.q: (512 * 64) ** -0.5,
        layer.self_attention.k: 512**-0.5,
        layer.self_attention.v: 512**-0.5,
        layer.self_attention.o: 384**-0.5,
        layer.feed_forward.wi_0: 512**-0.5,
        layer.feed_forward.wi_1: 512**-0.5,
        layer.feed_forward.wo: 1024**-0.5,
    }
    for module, std in expected.items():
        assert math.isclose(float(module.weight.detach().std()), std, rel_tol=0.02)
    assert math.isclose(float(model.relative_bias.weight.detach().std()), 512**-0.5, rel_tol=0.25)
    assert sum(p.numel() for p in layer.parameters()) == 2_360_320
