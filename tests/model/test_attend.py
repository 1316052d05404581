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


@pytest.mark.parametrize("case", ["bias", "causal", "plain"])
def test_dropout_draws_and_differentiates_as_torch_does(case: str) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 9, 3, width).transpose(1, 2).requires_grad_() for width in (8, 8, 6))
    bias = torch.randn(1, 3, 9, 9).requires_grad_() if case == "bias" else None
    leaves = [leaf for leaf in (query, key, value, bias) if leaf is not None]
    grad = torch.randn(2, 3, 9, 6)
    causal = case == "causal"

    def results(out: Tensor) -> list[Tensor]:
        return [out, *torch.autograd.grad(out, leaves, grad), torch.rand(3)]

    torch.manual_seed(1)
    got = results(attend(query, key, value, bias, 0.3, causal=causal, scale=0.7))
    torch.manual_seed(1)
    want = results(F.scaled_dot_product_attention(query, key, value, bias, 0.3, is_causal=causal, scale=0.7))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_dropout_keeps_one_tensor_of_scores() -> None:
    query, key, value = (torch.randn(2, 3, 64, 8, requires_grad=True) for _ in range(3))
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        attend(query, key, value, dropout=0.1)
    assert sorted(sizes) == [3072, 3072, 3072, 2 * 3 * 64 * 64]
