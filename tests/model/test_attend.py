"""Scaled dot products under autocast and with dropout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from amt.model.layers.attend import attend


def test_it_equals_torch_and_stays_float32_under_autocast() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (5, 7, 7))
    bias = torch.randn(1, 3, 5, 7)
    expected = F.scaled_dot_product_attention(query, key, value, bias, scale=0.3)
    assert torch.equal(attend(query, key, value, bias, scale=0.3), expected)
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(*(x.bfloat16() for x in (query, key, value)), bias.bfloat16(), scale=0.3)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected, atol=0.05, rtol=0.05)
    causal = attend(query, key[:, :, :5], value[:, :, :5], causal=True)
    torch.testing.assert_close(causal[:, :, 0], value[:, :, 0])


RATE = 0.3


def _inputs(case: str, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Tensor | None]:
    """Queries, keys and values whose memory is not in this order, and a bias or None."""
    torch.manual_seed(0)
    inputs = [
        torch.randn(2, 9, 3, width, dtype=dtype).transpose(1, 2).requires_grad_() for width in (8, 8, 6)
    ]
    bias = torch.randn(1, 3, 9, 9, dtype=dtype).requires_grad_() if case == "bias" else None
    return inputs, bias


@pytest.fixture(params=[1, 60, 2**17], ids=["a query's keys at a time", "some", "all"])
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amt.model.layers.attend._BLOCK", request.param)
    monkeypatch.setattr("amt.model.layers.attend.CAUSAL_ROWS", min(request.param, 4))


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("case", ["bias", "causal", "plain"])
def test_dropout_keeps_or_drops_each_probability(case: str) -> None:
    (query, key, _), bias = _inputs(case)
    causal = case == "causal"
    every = torch.eye(9).expand(2, 3, 9, 9)  # these values show the probabilities
    probs = F.scaled_dot_product_attention(query, key, every, bias, is_causal=causal, scale=0.7)
    total, drawn, draws = torch.zeros_like(probs), [], 400
    torch.manual_seed(1)
    for _ in range(draws):
        out = attend(query, key, every, bias, RATE, causal=causal, scale=0.7).detach()
        is_kept = out > 0
        torch.testing.assert_close(out, torch.where(is_kept, probs / (1 - RATE), 0.0), atol=1e-5, rtol=1e-4)
        total += out
        drawn.append(is_kept)
    assert not torch.equal(drawn[0], drawn[1])
    share = torch.stack(drawn)[:, probs > 0].float().mean(0)
    sigma = (RATE * (1 - RATE) / draws) ** 0.5
    assert (share - (1 - RATE)).abs().max() < 5 * sigma, "each for itself"
    assert abs(float(share.mean()) - (1 - RATE)) < 5 * sigma / share.numel() ** 0.5


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("case", ["bias", "causal", "plain"])
def test_dropout_differentiates_what_it_computes(case: str) -> None:
    inputs, bias = _inputs(case, torch.float64)

    def seeded(*leaves: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend(*leaves, dropout=RATE, causal=case == "causal", scale=0.7)  # type: ignore[misc]

    assert torch.autograd.gradcheck(seeded, (*inputs, *([] if bias is None else [bias])))


def test_dropout_keeps_one_tensor_of_scores_and_the_output() -> None:
    query, key, value = (torch.randn(2, 3, 64, 8, requires_grad=True) for _ in range(3))
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        attend(query, key, value, dropout=0.1)
    assert sorted(sizes) == [3072, 3072, 3072, 3072, 2 * 3 * 64 * 64]
