"""Optimizer steps against the reference's, and the parameter groups."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from amt.config.training import OPTIMIZERS
from amt.optim import OPTIMIZER_TABLE, AdamWScale, build_optimizer, is_decayed

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "optim" / "optim_steps.npz")
NAMES = ("w", "bias", "tiny", "norm")


def run_case(case, make):
    parameters = {name: nn.Parameter(torch.tensor(GOLDEN[f"init/{name}"])) for name in NAMES}
    optimizer = make(list(parameters.values()))
    for step in range(5):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(GOLDEN[f"grad/{step}/{name}"])
        optimizer.step()
        for name, parameter in parameters.items():
            np.testing.assert_allclose(
                parameter.detach().numpy(), GOLDEN[f"{case}/step{step + 1}/{name}"], rtol=2e-6, atol=1e-9
            )


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("adamwscale_lr1e-2", {}),
        ("adamwscale_lr1e-2_wd0.1", {"weight_decay": 0.1}),
        ("adamwscale_lr1e-2_nobias", {"correct_bias": False}),
    ],
)
def test_adamw_scale_equals_the_reference(case, options):
    run_case(case, lambda parameters: AdamWScale(parameters, lr=1e-2, **options))


@pytest.mark.parametrize("scaler", [False, True])
def test_adamw_equals_the_reference(scaler):
    def make(parameters):
        return build_optimizer("AdamW", zip(NAMES, parameters, strict=True), None, gradient_scaler=scaler)

    run_case("adamw_default", make)


@pytest.mark.parametrize("name", sorted(OPTIMIZER_TABLE))
def test_state_survives_saving_as_plain_types(name, tmp_path):
    def build():
        torch.manual_seed(0)
        layer = nn.Linear(4, 3)
        return layer, build_optimizer(name, layer.named_parameters(), 1e-2, 0.01)

    def step(layer, optimizer, seed):
        torch.manual_seed(seed)
        layer(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    layer, optimizer = build()
    for seed in range(4):
        step(layer, optimizer, seed)
    again, other = build()
    for seed in range(2):
        step(again, other, seed)
    torch.save({"model": again.state_dict(), "optimizer": other.state_dict()}, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", weights_only=True, map_location="cpu")
    third, fresh = build()
    third.load_state_dict(loaded["model"])
    fresh.load_state_dict(loaded["optimizer"])
    for seed in range(2, 4):
        step(third, fresh, seed)
    assert torch.equal(third.weight, layer.weight)
    assert torch.equal(third.bias, layer.bias)


@pytest.mark.parametrize("name", sorted(OPTIMIZER_TABLE))
def test_parameters_without_gradient_stay(name):
    layer = nn.Linear(4, 3)
    optimizer = build_optimizer(name, layer.named_parameters(), 1e-2, 0.5)
    before = layer.weight.detach().clone()
    optimizer.step()
    assert torch.equal(layer.weight, before)
    assert len(optimizer.state) == 0


def test_groups_and_decay():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.layernorm1 = nn.LayerNorm(4)
            self.pos_emb = nn.Parameter(torch.zeros(5, 3, 4))
            self.frozen = nn.Parameter(torch.zeros(2, 2), requires_grad=False)

    net = Net()
    decayed = [name for name, parameter in net.named_parameters() if is_decayed(name, parameter)]
    assert decayed == ["frozen", "linear.weight"]
    optimizer = build_optimizer("AdamW", net.named_parameters(), 1e-3, 0.1)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 5


def test_names():
    assert tuple(sorted(OPTIMIZER_TABLE)) == tuple(sorted(OPTIMIZERS))
    with pytest.raises(ValueError, match="AdamW"):
        build_optimizer("adamm", nn.Linear(2, 2).named_parameters())
    net = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter"):
        build_optimizer("AdamW", net.named_parameters())
