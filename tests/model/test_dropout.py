"""Dropout of a CPU: what is kept, how often, and what it passes back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from amt.model.layers.dropout import Dropout, dropout

RATE = 0.3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 5, 7), (2, 40_000)])
def test_elements_are_kept_and_scaled_or_0(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.rand(shape, dtype=dtype) + 0.5
    out = dropout(x, RATE, training=True)
    assert (out.shape, out.dtype) == (x.shape, dtype)
    scaled = (x.float() / (1 - RATE)).to(dtype)
    torch.testing.assert_close(out, torch.where(out == 0, out, scaled), atol=1e-4, rtol=1e-2)
    if x.numel() > 1000:
        sigma = (RATE * (1 - RATE) / x.numel()) ** 0.5
        assert abs(float((out == 0).float().mean()) - RATE) < 5 * sigma
        assert not torch.equal(out[0] == 0, out[1] == 0)


@pytest.mark.parametrize("rate", [1e-9, 0.05, 0.5, 0.999999])
def test_the_mean_stays(rate: float) -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(2**22), rate, training=True)
    level = max(round(rate * 65536), 1) / 65536 if rate < 0.5 else min(round(rate * 65536), 65535) / 65536
    sigma = (level / (1 - level) / out.numel()) ** 0.5
    assert abs(float(out.double().mean()) - 1) < 5 * sigma


def test_neighbours_are_independent() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(2**20), 0.5, training=True) > 0).float() - 0.5
    for distance in (1, 2, 3, 4, 8, 2**15):
        correlation = float((kept[distance:] * kept[:-distance]).mean()) / 0.25
        assert abs(correlation) < 5 / 2**10, distance


def test_torchs_seed_decides_and_its_generator_goes_on() -> None:
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x, RATE, training=True), dropout(x, RATE, training=True)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, RATE, training=True), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (RATE, False)])
def test_nothing_is_dropped(rate: float, training: bool) -> None:
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    before = torch.get_rng_state()
    layer = Dropout(rate).train(training)
    assert torch.equal(layer(y), y)
    assert torch.equal(layer.added(x, y), x + y)
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_are_those_of_the_elements_kept() -> None:
    def seeded(x: Tensor, y: Tensor) -> Tensor:
        torch.manual_seed(1)
        layer = Dropout(RATE)
        return layer.added(x, layer(y))

    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, y: seeded(x, y.t()), (x, y)), "the second is not contiguous"


def test_a_sum_is_the_sum() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 40_000), torch.randn(2, 40_000)
    layer = Dropout(RATE)
    torch.manual_seed(1)
    got = layer.added(x, y)
    torch.manual_seed(1)
    torch.testing.assert_close(got, x + layer(y))
    assert layer.added(x, y.bfloat16()).dtype == torch.float32, "of two number formats"


def test_activation_checkpointing_draws_the_same_again() -> None:
    torch.manual_seed(0)
    linear, layer = torch.nn.Linear(8, 8), Dropout(RATE)
    x = torch.randn(16, 8)

    def gradient(again: bool) -> Tensor:
        torch.manual_seed(1)
        linear.zero_grad()

        def part(x: Tensor) -> Tensor:
            return layer(F.gelu(layer(linear(x))))

        out = checkpoint(part, x, use_reentrant=False) if again else part(x)
        out.square().sum().backward()
        assert linear.weight.grad is not None
        return linear.weight.grad.clone()

    torch.testing.assert_close(gradient(again=True), gradient(again=False))
