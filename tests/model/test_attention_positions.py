"""Positions inside attention: rotary, and scores that fall with distance."""

from __future__ import annotations

import math

import pytest
import torch

from amt.config import PerceiverTFConfig
from amt.model.encoder.attention import AttentionPositions, SelfAttention, SpectralCrossAttention
from amt.model.encoder.perceiver_tf import PerceiverTF
from amt.model.layers.alibi import alibi_slopes, distances
from amt.model.layers.rotary import rotate, rotations

SIZES = {"num_latents": 3, "d_latent": 16, "d_model": 16, "qk_channels": 32, "v_channels": 16, "num_heads": 4}


def small(positions, **more):
    return PerceiverTFConfig(
        **SIZES,
        num_blocks=1,
        num_local_layers=1,
        num_temporal_layers=1,
        position_encoding=positions,
        dropout=0.0,
        **more,
    )


def test_rotation_is_a_product_of_complex_numbers():
    x = torch.randn(2, 5, 3, 8)
    for kind, angles in (
        ("l", torch.arange(5)[:, None] * torch.tensor([1.0, 0.01])),
        ("p", torch.linspace(-1, 1, 5)[:, None] * torch.tensor([math.pi, 5 * math.pi])),
    ):
        y = rotate(x, rotations(kind, 5, 4))
        numbers = torch.view_as_complex(x[..., :4].unflatten(-1, (2, 2)).contiguous())
        turned = numbers * torch.polar(torch.ones(5, 2), angles.float())[:, None]
        torch.testing.assert_close(y[..., :4], torch.view_as_real(turned).flatten(-2), atol=1e-5, rtol=1e-5)
        assert torch.equal(y[..., 4:], x[..., 4:])


def test_rotating_keys_too_makes_scores_relative():
    q, k = torch.randn(1, 1, 8).expand(6, 1, 8), torch.randn(1, 1, 8).expand(6, 1, 8)
    turns = rotations("l", 6, 8)
    scores = torch.einsum("qhd,xhd->qx", rotate(q, turns), rotate(k, turns))
    for offset in range(-5, 6):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=1e-5)


def test_rotation_keeps_the_type():
    assert rotate(torch.zeros(3, 1, 4, dtype=torch.bfloat16), rotations("p", 3, 4)).dtype == torch.bfloat16


def test_slopes():
    torch.testing.assert_close(alibi_slopes(8), 2.0 ** -torch.arange(1.0, 9.0))
    torch.testing.assert_close(alibi_slopes(6), 2.0 ** -torch.tensor([2.0, 4, 6, 8, 1, 3]))
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_distances_put_queries_at_the_last_keys():
    assert distances(2, 4).tolist() == [[2, 1, 0, 1], [3, 2, 1, 0]]
    assert distances(3, 3).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


def scores_of(part, q, k):
    """(H, Q, X) unscaled scores of one frame's queries and keys."""
    split = lambda x: x.unflatten(-1, (part.num_heads, -1)).transpose(0, 1)  # noqa: E731
    return split(part.query(q)) @ split(part.key(k)).transpose(1, 2), split(part.value(k))


@pytest.mark.parametrize("over_time", [False, True])
@pytest.mark.parametrize("kind", ["alibi", "alibit"])
def test_bias_on_self_attention(kind, over_time):
    config = small(kind, alibi_scale=0.5)
    part = SelfAttention(config, over_time)
    z = torch.randn(1, 5, 3, 16)
    length = 5 if over_time else 3
    out = part(z, AttentionPositions(distance=distances(length, length)))
    slopes = alibi_slopes(4)[:, None, None] if kind == "alibi" else part.slopes.sigmoid()
    x = part.norm(z)[0].transpose(0, 1) if over_time else part.norm(z)[0]
    expected = []
    for one in x:
        scores, values = scores_of(part, one, one)
        scores = scores / math.sqrt(8) - 0.5 * slopes * distances(length, length)
        expected.append(part.output((scores.softmax(-1) @ values).transpose(0, 1).flatten(1)))
    expected = torch.stack(expected)
    expected = z[0] + (expected.transpose(0, 1) if over_time else expected)
    torch.testing.assert_close(out[0], expected, atol=1e-5, rtol=1e-5)


def test_bias_and_rotation_on_cross_attention():
    part = SpectralCrossAttention(small("alibit"), 16, 7, 10, 16)
    z, x = torch.randn(1, 1, 3, 16), torch.randn(1, 1, 7, 10)
    queries, keys = rotations("p", 3, 4), rotations("p", 7, 4)
    out = part(z, x, AttentionPositions(queries, keys, distances(3, 7)))
    split = lambda y: y.unflatten(-1, (4, -1))  # noqa: E731
    q = rotate(split(part.query(part.query_norm(z[0, 0]))), queries).transpose(0, 1)
    k = rotate(split(part.key(part.key_norm(x[0, 0]))), keys).transpose(0, 1)
    scores = q @ k.transpose(1, 2) / math.sqrt(8) - part.slopes.sigmoid() * distances(3, 7)
    values = split(part.value(part.key_norm(x[0, 0]))).transpose(0, 1)
    expected = part.output((scores.softmax(-1) @ values).transpose(0, 1).flatten(1))
    torch.testing.assert_close(out[0, 0], expected, atol=1e-5, rtol=1e-5)


def test_slopes_learn_and_start_around_minus_two():
    torch.manual_seed(0)
    encoder = PerceiverTF(small("alibit"), 6, 7, 10)
    slopes = {name: value for name, value in encoder.named_parameters() if name.endswith("slopes")}
    assert len(slopes) == 3
    assert -3 < float(torch.cat([value.detach().flatten() for value in slopes.values()]).mean()) < -1
    encoder(torch.randn(2, 6, 7, 10)).square().sum().backward()
    assert all(value.grad.abs().sum() > 0 for value in slopes.values())
    assert not [name for name in PerceiverTF(small("alibi"), 6, 7, 10).state_dict() if "slopes" in name]


CHANGES = [
    {"rope_apply_to_keys": True},
    {"rope_partial": True},
    {"rope_width": 4},
    *({"rope_types": types} for types in ("lpl", "pll", "ppp")),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: "-".join(map(str, change.values())))
def test_each_rope_value_changes_the_result(change):
    x = torch.randn(1, 6, 7, 10)
    state = PerceiverTF(small("rope"), 6, 7, 10).state_dict()

    def run(config):
        encoder = PerceiverTF(config, 6, 7, 10).eval()
        encoder.load_state_dict(state)
        for layer in encoder.blocks[0].modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight.data *= 20
        return encoder(x)

    assert float((run(small("rope")) - run(small("rope", **change))).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("kind", ["alibi", "alibit", "rope", "none"])
def test_these_have_no_longest_segment(kind):
    encoder = PerceiverTF(small(kind), 6, 7, 10)
    assert encoder(torch.randn(1, 40, 7, 10)).shape == (1, 40, 3, 16)
