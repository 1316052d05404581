"""With every baseline the expected gradient is that of the expected reward: all outcomes of a toy enumerated.

The toy writes up to two of three tokens: the end, or one of two others; a distribution of its own after each
first token. Rewards are any numbers.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from amt.rl.baselines import Baseline
from amt.rl.reinforce import reinforce_loss

END = 0
SEQUENCES = [(END,), *((first, second) for first in (1, 2) for second in (END, 1, 2))]
ROWS = 2


def log_probs(logits: Tensor, row: int, sequence: tuple[int, ...]) -> list[Tensor]:
    """Of the tokens of a sequence; logits (rows, 3 states, 3 tokens), state 0 at the start."""
    states = (0, *sequence[:-1])
    return [logits[row, state].log_softmax(-1)[token] for state, token in zip(states, sequence, strict=True)]


def reward(row: int, sequence: tuple[int, ...]) -> float:
    return 0.2 + 0.3 * math.cos(3.0 * row + 5.0 * SEQUENCES.index(sequence))


def exact_gradient(logits: Tensor) -> Tensor:
    """Of the mean over rows of the expected reward, by enumeration."""
    total = logits.new_zeros(())
    for row, sequence in itertools.product(range(ROWS), SEQUENCES):
        total = total + torch.stack(log_probs(logits, row, sequence)).sum().exp() * reward(row, sequence)
    [gradient] = torch.autograd.grad(total / ROWS, logits)
    return gradient


def expected_gradient(logits: Tensor, make: str, num_samples: int, inclusive: bool = False) -> Tensor:
    """The mean over all outcomes of all samples of minus the gradient of the loss."""
    places = [(sample, row) for sample in range(num_samples) for row in range(ROWS)]
    probability = {
        (row, sequence): float(torch.stack(log_probs(logits, row, sequence)).sum().exp().detach())
        for row, sequence in itertools.product(range(ROWS), SEQUENCES)
    }
    baseline = Baseline(make)
    baseline.load([0.37])
    if make == "greedy":
        best = torch.tensor([reward(row, (1, 2)) for row in range(ROWS)], dtype=torch.float64)
    weights = {place: torch.zeros(len(SEQUENCES), dtype=torch.float64) for place in places}
    for outcome in itertools.product(range(len(SEQUENCES)), repeat=len(places)):
        chance = math.prod(
            probability[row, SEQUENCES[number]] for (_, row), number in zip(places, outcome, strict=True)
        )
        rewards = torch.tensor(
            [reward(row, SEQUENCES[number]) for (_, row), number in zip(places, outcome, strict=True)],
            dtype=torch.float64,
        ).view(num_samples, ROWS)
        found = baseline(rewards, best if make == "greedy" else None)[0]
        if inclusive:
            found = torch.full_like(rewards, float(rewards.mean()))
        for place, number, value in zip(places, outcome, (rewards - found).flatten().tolist(), strict=True):
            weights[place][number] += chance * value
    # The loss is linear in the advantages, so their expectations can be put in at once.
    loss = logits.new_zeros(())
    for (_, row), expected in weights.items():
        for sequence, value in zip(SEQUENCES, expected, strict=True):
            tokens = torch.stack(log_probs(logits, row, sequence))
            loss = loss + reinforce_loss(tokens, value.expand(len(tokens)), num_samples * ROWS)
    [gradient] = torch.autograd.grad(loss, logits)
    return -gradient


@pytest.fixture
def logits() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 3, 3, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize(
    ("make", "num_samples"),
    [("none", 1), ("batch", 1), ("ema", 1), ("greedy", 1), ("batch", 2), ("group", 2)],
)
def test_unbiased(logits: Tensor, make: str, num_samples: int) -> None:
    torch.testing.assert_close(
        expected_gradient(logits, make, num_samples),
        exact_gradient(logits),
        rtol=1e-9,
        atol=1e-12,
    )


def test_a_mean_with_the_sample_itself_would_be_biased(logits: Tensor) -> None:
    """What leaving it out is for: the gradient would be too small by (n - 1) / n."""
    torch.testing.assert_close(
        expected_gradient(logits, "batch", 1, inclusive=True), exact_gradient(logits) * (1 - 1 / ROWS)
    )


def test_values() -> None:
    rewards = torch.tensor([[0.0, 1.0, 0.5], [0.2, 0.4, 0.9]], dtype=torch.float64)
    batch, mean = Baseline("batch")(rewards)
    assert mean == pytest.approx(0.5)
    assert batch[0, 1].item() == pytest.approx((3.0 - 1.0) / 5)
    torch.testing.assert_close(Baseline("group")(rewards)[0], rewards.flip(0))
    greedy = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64)
    assert Baseline("greedy")(rewards, greedy)[0].tolist() == [greedy.tolist()] * 2
    assert Baseline("none")(rewards)[0].tolist() == [[0.0] * 3] * 2
    for name in ("batch", "ema"):
        assert Baseline(name)(rewards[:1, :1])[0].item() == 0.0, "a single sample has no others"
    assert Baseline("batch")(rewards[:, :0])[0].shape == (2, 0)


def test_the_average_moves_with_finished_steps_only() -> None:
    baseline = Baseline("ema", ema_decay=0.8)
    first = torch.tensor([[0.2, 0.6]], dtype=torch.float64)
    before = baseline(first)[0]
    torch.testing.assert_close(before, first.flip(1), msg="like batch before there is an average")
    baseline.settle(dropped=True)
    assert baseline.ema is None
    assert baseline.state() == []
    baseline(first)
    baseline(torch.tensor([[1.0, 1.0]], dtype=torch.float64))
    baseline.settle(dropped=False)
    assert baseline.ema == pytest.approx(0.7), "of the batches of the step together"
    baseline(torch.ones(1, 2, dtype=torch.float64))
    baseline.settle(dropped=True)
    assert baseline.ema == pytest.approx(0.7)
    found, _ = baseline(torch.ones(1, 2, dtype=torch.float64))
    assert found.flatten().tolist() == pytest.approx([0.7] * 2)
    baseline.settle(dropped=False)
    assert baseline.ema == pytest.approx(0.8 * 0.7 + 0.2 * 1.0)
    other = Baseline("ema", ema_decay=0.8)
    other.load(baseline.state())
    assert other.ema == baseline.ema
    baseline.settle(dropped=False)
    assert other.ema == baseline.ema, "a step without samples moves nothing"
