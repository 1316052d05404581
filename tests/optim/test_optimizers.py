"""Optimizer steps against the reference's, and the parameter groups."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from amt.config.training import OPTIMIZERS
from amt.optim import (
    OPTIMIZER_TABLE,
    Adafactor,
    AdamWScale,
    DAdaptAdam,
    build_optimizer,
    build_scheduler,
    is_decayed,
    layer_depths,
    paces_itself,
)

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "optim" / "optim_steps.npz")
NAMES = ("w", "bias", "tiny", "norm")
HERE = sorted(set(OPTIMIZER_TABLE) - {"CPUAdam"})
"""Those that need nothing else installed."""


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


@pytest.mark.parametrize(("case", "rate"), [("adafactor_auto", None), ("adafactor_lr1e-3", 1e-3)])
def test_adafactor_equals_the_reference(case, rate):
    def make(parameters):
        return build_optimizer("Adafactor", zip(NAMES, parameters, strict=True), rate)

    run_case(case, make)


def dadapt_by_hand(start, gradients, beta1=0.9, beta2=0.999, eps=1e-8, d=1e-6):
    """Algorithm 5 of Defazio and Mishchenko, in the paper's letters, on one float64 vector."""
    x, m, v, s, r = start.astype(np.float64), 0.0, 0.0, np.zeros_like(start, np.float64), 0.0
    root = np.sqrt(beta2)
    path = []
    for g in gradients:
        m = beta1 * m + (1 - beta1) * d * g
        v = beta2 * v + (1 - beta2) * g**2
        a = np.sqrt(v) + eps
        x = x - m / a
        r = root * r + (1 - root) * d * np.sum(g * s / a)
        s = root * s + (1 - root) * d * g
        d = max(d, r / ((1 - root) * np.sum(np.abs(s))))
        path.append((x, d))
    return path


def test_dadapt_adam_is_the_papers_algorithm():
    rng = np.random.default_rng(0)
    start = rng.normal(size=7)
    gradients = [rng.normal(size=7) + 1.0 for _ in range(60)]
    first, second = (nn.Parameter(torch.tensor(part)) for part in (start[:3], start[3:]))
    optimizer = DAdaptAdam([{"params": [first]}, {"params": [second]}])
    for gradient, (x, d) in zip(gradients, dadapt_by_hand(start, gradients), strict=True):
        first.grad, second.grad = torch.tensor(gradient[:3]), torch.tensor(gradient[3:])
        optimizer.step()
        np.testing.assert_allclose(torch.cat([first, second]).detach().numpy(), x, rtol=1e-6, atol=1e-12)
        assert optimizer.distance == pytest.approx(d, rel=1e-5)
    assert optimizer.distance > 1e-5, "it has grown"


def test_dadapt_adam_needs_no_rate():
    """On a problem with its solution at distance 10 it gets there from a first guess of 1e-6."""
    target = torch.full((20,), 10.0)
    weights = nn.Parameter(torch.zeros(20))
    optimizer = build_optimizer("DAdaptAdam", [("weights", weights)])
    for _ in range(400):
        weights.grad = torch.sign(weights.detach() - target)
        optimizer.step()
    assert (weights.detach() - target).abs().mean().item() < 1.0
    assert 0.1 < optimizer.distance < 100


class CountSyncs(TorchDispatchMode):
    """Counts how often the host asks the device for a number."""

    num = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.num += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "allowed"), [("AdamWScale", 0), ("Adafactor", 0), ("DAdaptAdam", 2)])
def test_the_host_does_not_wait_for_each_tensor(name, allowed):
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(10)))
    optimizer = build_optimizer(name, net.named_parameters(), None, 0.1)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    with CountSyncs() as count:
        torch.ones(1).item()
        optimizer.step()
    assert count.num - 1 <= allowed


def test_self_tuning_optimizers_take_no_schedule_without_a_rate():
    layer = nn.Linear(2, 2)
    for name in OPTIMIZER_TABLE:
        assert paces_itself(name, None) == (name in ("Adafactor", "DAdaptAdam"))
        assert not paces_itself(name, 1e-3)
    optimizer = build_optimizer("Adafactor", layer.named_parameters())
    schedule = build_scheduler("cosine", optimizer, warmup_steps=5, self_paced=True)
    assert {schedule.rate(step) for step in range(20)} == {1.0}
    assert "finds its own learning rate" in schedule.notice
    assert optimizer.param_groups[0]["relative_step"] is True
    given = build_optimizer("Adafactor", layer.named_parameters(), 1e-3)
    assert given.param_groups[0]["relative_step"] is False


def test_cpu_adam_says_what_it_needs(monkeypatch):
    layer = nn.Linear(2, 2)
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(ValueError, match=r"amt\[deepspeed\]"):
        build_optimizer("CPUAdam", layer.named_parameters())

    def stand_in(groups, lr, betas, adamw_mode):
        assert adamw_mode
        return torch.optim.AdamW(groups, lr=lr, betas=betas)

    for name in ("deepspeed", "deepspeed.ops", "deepspeed.ops.adam"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["deepspeed.ops.adam"].DeepSpeedCPUAdam = stand_in
    optimizer = build_optimizer("CPUAdam", layer.named_parameters(), None, 0.1, (0.8, 0.9))
    assert optimizer.param_groups[0]["lr"] == 1e-3
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    meta = nn.Linear(2, 2, device="meta")
    with pytest.raises(ValueError, match="-o AdamW"):
        build_optimizer("CPUAdam", meta.named_parameters())


@pytest.mark.parametrize("name", HERE)
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


@pytest.mark.parametrize("name", HERE)
def test_parameters_without_gradient_stay(name):
    layer = nn.Linear(4, 3)
    optimizer = build_optimizer(name, layer.named_parameters(), 1e-2, 0.5)
    before = layer.weight.detach().clone()
    optimizer.step()
    assert torch.equal(layer.weight, before)
    assert len(optimizer.state) == 0


@pytest.mark.parametrize("kind", [Adafactor, AdamWScale, DAdaptAdam])
def test_a_closure_is_called_once_and_settings_out_of_range_are_refused(kind):
    parameter = nn.Parameter(torch.ones(3, 2))
    optimizer = kind([parameter])
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        losses.append(loss)
        return loss

    assert optimizer.step(closure) is losses[0]
    assert len(losses) == 1
    assert not torch.equal(parameter, torch.ones(3, 2))
    for wrong in ({"lr": -1.0}, {"weight_decay": -0.1}):
        with pytest.raises(ValueError, match=f"{kind.__name__}: {next(iter(wrong))} -"):
            kind([parameter], **wrong)
    if kind is not Adafactor:
        with pytest.raises(ValueError, match=r"betas \(0\.9, 1\.0\)"):
            kind([parameter], betas=(0.9, 1.0))
    if kind is DAdaptAdam:
        with pytest.raises(ValueError, match="d0 0"):
            kind([parameter], d0=0.0)


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


def test_layer_wise_decay_multiplies_the_rates():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pre_encoder = nn.Linear(2, 2)
            self.encoder = nn.Module()
            self.encoder.latents = nn.Parameter(torch.zeros(2, 2))
            self.encoder.blocks = nn.ModuleList(
                nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2)])}) for _ in "ab"
            )
            self.pre_decoder = nn.Linear(2, 2)
            self.decoder = nn.Module()
            self.decoder.embed = nn.Embedding(3, 2)
            self.decoder.layers = nn.ModuleList(nn.Linear(2, 2) for _ in "abc")
            self.decoder.lm_head = nn.Linear(2, 3)

    net = Net()
    depths = layer_depths(name for name, _ in net.named_parameters())
    assert depths["decoder.lm_head.weight"] == 0
    assert [depths[f"decoder.layers.{number}.bias"] for number in (2, 1, 0)] == [1, 2, 3]
    assert depths["decoder.embed.weight"] == depths["pre_decoder.weight"] == 4
    assert [depths[f"encoder.blocks.{number}.layers.0.weight"] for number in (1, 0)] == [4, 5]
    assert depths["encoder.latents"] == 6
    assert depths["pre_encoder.weight"] == 7
    optimizer = build_optimizer("AdamW", net.named_parameters(), 1e-2, 0.1, lr_decay=0.5)
    schedule = build_scheduler("constant", optimizer)
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in net.named_parameters():
        group = of[id(parameter)]
        assert group["lr"] == pytest.approx(1e-2 * 0.5 ** depths[name]), name
        assert group["weight_decay"] == (0.1 if is_decayed(name, parameter) else 0.0)
    assert schedule.current_rate == 1e-2
    schedule.factor = 0.5
    schedule.step()
    assert of[id(net.pre_encoder.weight)]["lr"] == pytest.approx(0.5e-2 * 0.5**7)
    flat = build_optimizer("AdamW", net.named_parameters(), 1e-2, 0.1)
    assert [group["lr_scale"] for group in flat.param_groups] == [1.0, 1.0]


def test_names():
    assert tuple(sorted(OPTIMIZER_TABLE)) == tuple(sorted(OPTIMIZERS))
    with pytest.raises(ValueError, match="AdamW"):
        build_optimizer("adamm", nn.Linear(2, 2).named_parameters())
    net = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter"):
        build_optimizer("AdamW", net.named_parameters())
