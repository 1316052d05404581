"""Dropped steps: nothing remembers them, and a long row of them ends the run."""

import copy
import math

import pytest
import torch
import torch.distributed as dist
from torch import nn

from amt.training.nonfinite import (
    MIN_LR_SCALE,
    GradScalerMinScaleGuard,
    NonFiniteGuard,
    NonFiniteLossError,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(self.norm(x))


class Trainer:
    """The few calls Lightning makes in a step."""

    def __init__(self, **options):
        torch.manual_seed(0)
        self.net = Net()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.1)
        self.guard = NonFiniteGuard(self.net, **options)
        self.steps = 0

    def step(self, *batches, clip=0.0, bad_gradient=False):
        self.guard.start_window()
        self.optimizer.zero_grad()
        for batch in batches:
            logits = self.net(batch)
            loss = logits.square().mean()
            loss.backward()
            self.guard.observe(loss, {"square": loss}, logits, torch.tensor(2))
        if bad_gradient:
            self.net.linear.bias.grad[0] = math.inf
        self.steps += 1
        verdict = self.guard.decide(self.net.named_parameters(), step=self.steps, clip=clip)
        self.optimizer.step()
        return verdict

    def state(self):
        return copy.deepcopy((self.net.state_dict(), self.optimizer.state_dict()["state"]))


def same(first, second):
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, tuple):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    return first == second


def batch(seed):
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))


NAN = torch.full((4, 3), math.nan)


@pytest.mark.parametrize("window", [(NAN,), (batch(3), NAN), (NAN, batch(3))])
def test_a_dropped_window_leaves_no_trace(window):
    trainer = Trainer()
    trainer.step(batch(1))
    before = trainer.state()
    verdict = trainer.step(*window)
    assert verdict.dropped
    assert verdict.loss == 0.0
    assert same(trainer.state(), before)
    assert trainer.guard.lr_scale == 0.5
    assert not trainer.guard.saving_allowed
    # The next good step is the one a run without the bad window makes.
    reference = Trainer()
    reference.step(batch(1))
    assert not trainer.step(batch(2)).dropped
    reference.step(batch(2))
    assert same(trainer.state(), reference.state())
    assert trainer.guard.saving_allowed
    assert trainer.guard.num_dropped == 1


def test_numbers_of_a_good_step():
    trainer = Trainer()
    logits = [trainer.net(batch(seed)) for seed in (1, 2)]
    expected = float(sum(item.square().mean() for item in logits)) / 2
    trainer = Trainer()
    verdict = trainer.step(batch(1), batch(2))
    assert verdict.loss == pytest.approx(expected, rel=1e-5)
    assert verdict.terms == {"square": pytest.approx(expected, rel=1e-5)}
    assert verdict.num_tokens == 4
    assert verdict.grad_norm > 0


def test_clipping():
    trainer = Trainer()
    norm = trainer.step(batch(1)).grad_norm
    trainer = Trainer()
    trainer.step(batch(1), clip=norm / 4)
    clipped = torch.nn.utils.get_total_norm([p.grad for p in trainer.net.parameters()])
    assert float(clipped) == pytest.approx(norm / 4, rel=1e-4)


def test_bad_gradient_with_a_finite_loss():
    trainer = Trainer()
    before = trainer.state()
    assert trainer.step(batch(1), bad_gradient=True).dropped
    assert same(trainer.state()[0]["linear.weight"], before[0]["linear.weight"])
    # Under fp16 the scaler finds such overflows itself: not counted, the rate stays.
    scaled = Trainer(has_scaler=True)
    assert not scaled.step(batch(1), bad_gradient=True).dropped
    assert scaled.guard.lr_scale == 1.0


def test_the_rate_has_a_floor_and_a_long_row_raises():
    trainer = Trainer(max_consecutive=50, resume_file="runs/last.ckpt")
    trainer.step(batch(1))
    for _ in range(49):
        trainer.step(NAN)
    assert trainer.guard.lr_scale == MIN_LR_SCALE
    with pytest.raises(NonFiniteLossError, match=r"last good step was 1.*runs/last\.ckpt"):
        trainer.step(NAN)


def test_a_good_step_ends_the_row():
    trainer = Trainer(max_consecutive=3)
    for _ in range(4):
        trainer.step(NAN)
        trainer.step(NAN)
        trainer.step(batch(1))
    assert trainer.guard.num_dropped == 8


def test_the_first_bad_gradient_is_named():
    trainer = Trainer(scan_gradients=True)
    with pytest.raises(NonFiniteLossError, match=r"linear\.bias"):
        trainer.step(batch(1), bad_gradient=True)


def test_the_rank_is_named(monkeypatch):
    """The places of four ranks in the one reduction: ranks 1 and 3 had a bad loss."""

    def all_reduce(shared, op):
        places = shared[-8:].view(2, 4)
        assert places[:, 2].tolist() == [0.0, 2.0], "this rank's own"
        places[0, [1, 3]] = 1.0
        places[1] = torch.tensor([1.0, 5.0, 2.0, 3.0])

    monkeypatch.setattr(dist, "get_rank", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    monkeypatch.setattr(dist, "broadcast", lambda buffer, source: None)
    trainer = Trainer(world_size=4)
    with pytest.warns(UserWarning, match=r"step 1 is dropped on every rank.*, on rank 1, 3; 1 in a row"):
        verdict = trainer.step(torch.randn(4, 3))
    assert verdict.dropped
    assert verdict.num_tokens == 11


def test_the_cause_is_named():
    trainer = Trainer()
    with pytest.warns(UserWarning, match="the logits are not finite"):
        trainer.step(NAN)
    guard = trainer.guard
    guard.start_window()
    guard.observe(torch.tensor(math.inf), {}, torch.zeros(2), torch.tensor(1))
    with pytest.warns(UserWarning, match="logits are finite"):
        guard.decide(trainer.net.named_parameters(), step=2)


@pytest.mark.parametrize(
    ("pattern", "start", "floor", "expected"),
    [
        ([(1, 20)], 65536.0, None, 0.0625),
        ([(1, 20)], 65536.0, 1.0, 1.0),
        ([(1, 20)], 65536.0, 128.0, 128.0),
        ([(1, 20), (0, 2000)], 65536.0, 1.0, 2.0),
        ([(1, 1), (0, 1999)] * 3, 1024.0, None, 128.0),
        ([(1, 200)], 65536.0, None, 0.0),
        ([(1, 200)], 65536.0, 1.0, 1.0),
    ],
)
def test_gradient_scale(pattern, start, floor, expected):
    """The scales of the public cases: overflows (1) and clean steps (0) in a row."""
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=2000)
    guard = None if floor is None else GradScalerMinScaleGuard(floor)
    scaler.scale(torch.zeros(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amt.training.nonfinite.rank_zero_warn", lambda text: None)
        for overflow, count in pattern:
            for _ in range(count):
                parameter.grad = torch.full((1,), math.inf if overflow else 1.0)
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                if guard is not None:
                    guard.lift(scaler)
    assert scaler.get_scale() == expected


def test_fp16_at_its_floor_for_long_is_reported():
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    scaler.scale(torch.zeros(1))
    guard = GradScalerMinScaleGuard(16.0)
    for _ in range(49):
        scaler.update(8.0)
        guard.lift(scaler)
    scaler.update(8.0)
    with pytest.warns(UserWarning, match="50 steps in a row"):
        guard.lift(scaler)
