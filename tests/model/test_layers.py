"""Norms, sinusoids and buckets."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from transformers.activations import ACT2FN
from transformers.models.t5.modeling_t5 import T5Attention

from amt.config.perceiver import ACTIVATIONS
from amt.model.layers.activations import get_activation
from amt.model.layers.feed_forward import GatedMLP, T5GatedMLP
from amt.model.layers.norms import RMSNorm, make_norm
from amt.model.layers.positions import causal_buckets, sinusoids


def test_rms_norm_gradient():
    """The hand-written gradient of the CPU path, in float64 against finite differences."""
    from amt.model.layers.norms import _RMSNormFunction

    x = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: _RMSNormFunction.apply(a, b, 1e-3), (x, weight))


def test_rms_norm_equals_builtin():
    norm = RMSNorm(16, 1e-6)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(2, 5, 16).transpose(0, 1).requires_grad_()
    y, expected = norm(x), F.rms_norm(x, (16,), norm.weight, 1e-6)
    torch.testing.assert_close(y, expected)
    gradient = torch.randn(16, 2, 5).permute(2, 1, 0)
    got = torch.autograd.grad(y, (x, norm.weight), gradient)
    torch.testing.assert_close(got, torch.autograd.grad(expected, (x, norm.weight), gradient))
    with torch.no_grad():
        torch.testing.assert_close(norm(x), expected)
    assert norm(x.bfloat16()).dtype == torch.bfloat16
    assert norm(torch.zeros(1, 16)).isfinite().all()


def test_sinusoids():
    table = sinusoids(torch.arange(7), 6)
    assert table.shape == (7, 6)
    for m in range(3):
        angle = 3 / 10000 ** (2 * m / 6)
        assert math.isclose(float(table[3, m]), math.sin(angle), abs_tol=1e-6)
        assert math.isclose(float(table[3, 3 + m]), math.cos(angle), abs_tol=1e-6)
    assert sinusoids(torch.arange(4), 5).shape == (4, 5)
    assert sinusoids(torch.arange(4), 5)[0].tolist() == [0, 0, 0, 1, 1]
    half = sinusoids(torch.tensor([1.5]), 8, 1000.0)
    assert math.isclose(float(half[0, 0]), math.sin(1.5), abs_tol=1e-6)


def test_buckets_against_transformers():
    distance = torch.arange(0, 3000)
    judge = T5Attention._relative_position_bucket(-distance, bidirectional=False)
    assert torch.equal(causal_buckets(distance), judge)
    assert int(causal_buckets(torch.tensor(-5))) == 0


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_against_transformers(name):
    x = 3 * torch.randn(100)
    torch.testing.assert_close(get_activation(name)(x), ACT2FN[name](x))


def test_gated_feed_forward():
    layer = GatedMLP(6, 2, "silu", 0.5)
    x = torch.randn(3, 6)
    expected = layer.w2(F.silu(layer.w1(x)) * layer.gate(x))
    torch.testing.assert_close(layer.eval()(x), expected)
    y = layer.train()(x)
    assert (y == 0).any()
    assert not torch.allclose(y, expected)


def test_t5_feed_forward_in_float16_stays_finite():
    """Case B04: states of 300 and output weights of 250 give sums far above 65504."""
    layer = T5GatedMLP(64, 128, 0.0)
    with torch.no_grad():
        for weight in (layer.wi_0.weight, layer.wi_1.weight):
            weight.fill_(0.02)
        layer.wo.weight.fill_(250.0)
    states = torch.full((2, 3, 64), 300.0, requires_grad=True)
    exact = layer(states)
    with torch.autocast("cpu", torch.float16):
        half = layer(states)
    assert float(exact.detach().max()) > 65504
    torch.testing.assert_close(half.float(), exact, rtol=0.01, atol=0)
    (half.float().mean() * 1e-6).backward()
    assert torch.isfinite(states.grad).all()
    assert float(layer.wo.weight.grad.abs().max()) > 0
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(states).dtype == torch.bfloat16, "other formats go through their own products"


def test_names():
    with pytest.raises(ValueError, match="gelu"):
        get_activation("gelo")
    with pytest.raises(ValueError, match="rms_norm"):
        make_norm("rms", 4)
