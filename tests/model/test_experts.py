"""Mixture of experts against a loop over tokens, with and without the layout of a GPU."""

from __future__ import annotations

import pytest
import torch

from amt.model.layers import experts
from amt.model.layers.activations import get_activation
from amt.model.layers.experts import MixtureOfExperts, RowPlan, balance_loss, plan_rows
from amt.model.layers.feed_forward import GatedMLP

WIDTH, WIDENING = 8, 3


def make(num_experts, topk, activation="silu"):
    layer = MixtureOfExperts(WIDTH, WIDENING, activation, num_experts, topk)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def token_by_token(layer, x, activation="silu"):
    """The definition: each token through its best experts, weighted by their softmax among themselves."""
    act, e = get_activation(activation), layer.experts
    out = []
    for token in x.flatten(0, -2):
        scores = (layer.gate.weight @ token).topk(layer.topk)
        parts = [
            weight * (e.w2[i] @ (act(e.w1[i] @ token) * (e.gate[i] @ token)))
            for weight, i in zip(scores.values.softmax(0), scores.indices.tolist(), strict=True)
        ]
        out.append(sum(parts))
    return torch.stack(out).view_as(x)


@pytest.fixture
def as_on_gpu(monkeypatch):
    """The rows as a GPU gets them: filled up groups, sizes in a tensor, the grouped product."""
    monkeypatch.setattr(experts, "_is_on_cpu", lambda tensor: False)


def check_against_definition(num_experts, topk, activation="silu"):
    layer = make(num_experts, topk, activation)
    x = torch.randn(2, 7, WIDTH, requires_grad=True)
    y, _ = layer(x)
    expected = token_by_token(layer, x, activation)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)
    gradient = torch.randn_like(y)
    inputs = [x, *layer.parameters()]
    got = torch.autograd.grad(y, inputs, gradient)
    torch.testing.assert_close(got, torch.autograd.grad(expected, inputs, gradient), atol=1e-4, rtol=1e-4)


CASES = [(4, 2), (3, 3), (1, 1), (16, 1)]


@pytest.mark.parametrize(("num_experts", "topk"), CASES)
def test_equals_the_definition(num_experts, topk):
    check_against_definition(num_experts, topk)


@pytest.mark.parametrize(("num_experts", "topk"), CASES)
def test_layout_of_a_gpu_equals_the_definition(as_on_gpu, num_experts, topk):
    check_against_definition(num_experts, topk)


def test_widths_that_a_grouped_product_cannot_read_go_by_size(as_on_gpu, monkeypatch):
    monkeypatch.setattr(torch.nn.functional, "grouped_mm", None)
    layer = MixtureOfExperts(6, WIDENING, "silu", 3, 2)
    x = torch.randn(4, 6)
    torch.testing.assert_close(layer(x)[0], token_by_token(layer, x), atol=1e-6, rtol=1e-5)


def test_any_activation_has_its_gradient():
    for activation in ("gelu", "gelu_new", "relu2", "quick_gelu"):
        check_against_definition(3, 2, activation)


def test_experts_without_a_token():
    layer = make(4, 1)
    with torch.no_grad():
        layer.gate.weight.zero_()
        layer.gate.weight[2] = 5.0
    x = torch.rand(3, WIDTH)
    y, _ = layer(x)
    torch.testing.assert_close(y, token_by_token(layer, x), atol=1e-5, rtol=1e-5)
    y.sum().backward()
    used = layer.experts.w1.grad.flatten(1).abs().sum(1) > 0
    assert used.tolist() == [False, False, True, False]
    assert layer(x[:0])[0].shape == (0, WIDTH)


def test_equal_experts_are_one_feed_forward():
    layer = make(4, 2)
    single = GatedMLP(WIDTH, WIDENING, "silu", 0.0)
    with torch.no_grad():
        for name in ("w1", "gate", "w2"):
            getattr(layer.experts, name).copy_(getattr(single, name).weight)
    x = torch.randn(5, WIDTH)
    torch.testing.assert_close(layer(x)[0], single(x), atol=1e-6, rtol=1e-5)


def test_reduced_precision_follows_autocast():
    layer = make(4, 2)
    x = torch.randn(6, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = layer(x)
        y.float().sum().backward()
    assert layer.experts.w1.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x)[0], atol=0.2, rtol=0.1)


def test_plan_of_a_gpu_fills_groups_up():
    chosen = torch.tensor([[0, 2], [2, 0], [2, 1], [0, 2]])
    plan = plan_rows(chosen, 4, by_size=False)
    assert isinstance(plan, RowPlan)
    assert plan.sizes is None
    assert plan.ends.tolist() == [8, 16, 24, len(plan.source)]
    assert not any(end % experts.GROUP_ALIGNMENT for end in plan.ends.tolist())
    # Every choice has its own row, in the group of its expert, and reads its own token.
    rows = plan.row_of.view_as(chosen)
    assert len(set(rows.flatten().tolist())) == chosen.numel()
    for token, choices in enumerate(chosen.tolist()):
        for i, expert in enumerate(choices):
            row = int(rows[token, i])
            assert row // 8 == expert
            assert int(plan.source[row]) == token
    assert int((plan.source == len(chosen)).sum()) == len(plan.source) - chosen.numel()


def test_balance():
    even = torch.full((8, 4), 0.25)
    spread = torch.arange(8).view(8, 1) % 4
    assert float(balance_loss(even, spread)) == pytest.approx(1.0)
    certain = torch.zeros(8, 4)
    certain[:, 1] = 1.0
    assert float(balance_loss(certain, torch.ones(8, 1, dtype=torch.long))) == pytest.approx(4.0)


def test_balance_only_in_training_and_falls_when_minimised():
    layer = make(4, 1)
    x = torch.randn(200, WIDTH)
    assert layer.eval()(x)[1] is None
    layer.train()
    rate, values = 0.5, []
    for _ in range(40):
        loss = layer(x)[1]
        values.append(float(loss.detach()))
        (gradient,) = torch.autograd.grad(loss, [layer.gate.weight])
        with torch.no_grad():
            layer.gate.weight -= rate * gradient
    assert values[-1] < values[0]
    assert values[-1] < 1.15
