"""Scaled dot products under autocast."""

from __future__ import annotations

import torch
import torch.nn.functional as F

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
