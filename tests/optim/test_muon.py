"""Orthogonalised momentum against torch's, and which parameters it is for."""

import pytest
import torch
from torch import nn

from amt.optim import build_optimizer
from amt.optim.muon import Muon, as_matrices, orthogonal
from amt.optim.optimizers import matrix_kind

SHAPES = ((6, 6), (6, 6), (12, 5), (5, 12), (3, 40))


def gradients(parameters, steps):
    rng = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=rng)
        yield


def test_matrices_go_as_torchs(monkeypatch):
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in SHAPES]
    ours = [nn.Parameter(value.clone()) for value in start]
    theirs = [nn.Parameter(value.clone()) for value in start]
    settings = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}
    one = Muon([{"params": ours, "matrices": "flat"}], **settings, dtype=torch.bfloat16)
    two = torch.optim.Muon(theirs, **settings, adjust_lr_fn="match_rms_adamw")
    for _ in gradients(ours, 5):
        for mine, other in zip(ours, theirs, strict=True):
            other.grad = mine.grad.clone()
        one.step()
        two.step()
    for mine, other, value in zip(ours, theirs, start, strict=True):
        assert (mine - value).abs().max() > 0.01
        torch.testing.assert_close(mine, other, atol=3e-4, rtol=0)  # both round to bfloat16, at other places


def test_all_else_goes_as_adamw():
    torch.manual_seed(0)
    start = [torch.randn(4), torch.randn(3, 4)]
    ours, theirs = ([nn.Parameter(value.clone()) for value in start] for _ in range(2))
    settings = {"lr": 0.01, "betas": (0.9, 0.98), "weight_decay": 0.1}
    one, two = Muon([{"params": ours}], **settings), torch.optim.AdamW(theirs, **settings)
    for _ in gradients(ours, 4):
        for mine, other in zip(ours, theirs, strict=True):
            other.grad = mine.grad.clone()
        one.step()
        two.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5)])
def test_singular_values_come_near_one_and_vectors_stay(shape):
    torch.manual_seed(0)
    values = torch.randn(3, *shape)
    found = orthogonal(values)
    for before, after in zip(values, found, strict=True):
        u, _, v = torch.linalg.svd(before, full_matrices=False)
        middle = u.T @ after @ v.T
        assert (middle - torch.diag(middle.diagonal())).abs().max() < 1e-3
        assert middle.diagonal().min() > 0.5
        assert middle.diagonal().max() < 1.3
    assert not orthogonal(torch.zeros(1, *shape)).any()


def test_a_stack_is_its_matrices_one_by_one():
    torch.manual_seed(0)
    experts = torch.randn(3, 4, 6)
    one = nn.Parameter(experts.clone())
    apart = [nn.Parameter(value.clone()) for value in experts]
    stacked = Muon([{"params": [one], "matrices": "stack"}], lr=0.1)
    flat = Muon([{"params": apart, "matrices": "flat"}], lr=0.1)
    one.grad = torch.randn(3, 4, 6)
    for parameter, gradient in zip(apart, one.grad, strict=True):
        parameter.grad = gradient.clone()
    stacked.step()
    flat.step()
    torch.testing.assert_close(one.data, torch.stack([value.data for value in apart]))
    assert as_matrices(torch.zeros(4, 3, 2, 2), "flat").shape == (1, 4, 12)
    assert as_matrices(torch.zeros(4, 3), "stack").shape == (1, 4, 3)


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        ("encoder.blocks.0.local_layers.0.attention.query.weight", (96, 96), "flat"),
        ("pre_encoder.conv2.weight", (48, 24, 3, 3), "flat"),
        ("conformer.conv.pointwise.weight", (64, 32, 1), "flat"),
        ("conformer.conv.depthwise.weight", (64, 1, 31), "none"),
        ("encoder.blocks.0.local_layers.0.feed_forward.experts.w1", (8, 512, 128), "stack"),
        ("pre_decoder.weight", (26, 4, 128), "stack"),
        ("decoder.embed.weight", (542, 128), "none"),
        ("decoder.lm_head.weight", (542, 128), "none"),
        ("frame_head.weight", (90, 128), "none"),
        ("pre_encoder.conv1.weight", (24, 6, 3, 5), "none"),
        ("encoder.latents", (4, 96), "none"),
        ("decoder.layers.0.self_norm.weight", (128,), "none"),
    ],
)
def test_inner_matrices_are_orthogonalised(name, shape, kind):
    assert matrix_kind(name, nn.Parameter(torch.zeros(shape))) == kind


def test_groups_say_what_they_hold():
    network = nn.ModuleDict({"inner": nn.Linear(4, 4), "embed": nn.Embedding(5, 4)})
    optimizer = build_optimizer("Muon", network.named_parameters(), 1e-3, 0.1)
    groups = [(group["matrices"], group["weight_decay"]) for group in optimizer.param_groups]
    assert groups == [("none", 0.1), ("flat", 0.1), ("none", 0.0)]
