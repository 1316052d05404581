"""Token cross-entropy against dense references."""

import math

import pytest
import torch
import torch.nn.functional as F

from amt.losses import token_cross_entropy
from amt.losses.token_ce import token_losses

SHIFTS = range(3, 20)


def dense_reference(logits, labels, sigma, shifts):
    """Cross-entropy with explicit (.., V) targets, token by token."""
    total, count = 0.0, 0
    log_probs = torch.log_softmax(logits.double(), -1)
    for index in torch.cartesian_prod(*[torch.arange(n) for n in labels.shape]).tolist():
        label = int(labels[tuple(index)])
        if label == 0:
            continue
        target = torch.zeros(logits.shape[-1], dtype=torch.float64)
        if sigma > 0 and label in shifts:
            for step in shifts:
                if abs(step - label) <= 3 * sigma:
                    target[step] = math.exp(-0.5 * ((step - label) / sigma) ** 2)
            target /= target.sum()
        else:
            target[label] = 1.0
        total -= float((target * log_probs[tuple(index)]).sum())
        count += 1
    return total / count


@pytest.mark.parametrize("sigma", [0.0, 0.3, 0.4, 1.0, 2.0, 2.5])
def test_equals_dense_targets(sigma):
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(2, 2, 12, 40, generator=generator)
    labels = torch.randint(0, 40, (2, 2, 12), generator=generator)
    labels[0, 0, :4] = torch.tensor([3, 19, 4, 18])  # both ends of the shift tokens
    loss = token_cross_entropy(logits, labels, pad_id=0, shift_range=SHIFTS, soft_shift_steps=sigma)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(dense_reference(logits, labels, sigma, SHIFTS), abs=1e-5)


def test_hard_targets_equal_torch_in_value_and_gradient():
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(2, 1, 9, 30, generator=generator, requires_grad=True)
    labels = torch.randint(0, 30, (2, 1, 9), generator=generator)
    expected = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), ignore_index=0)
    (wanted,) = torch.autograd.grad(expected, logits)
    loss = token_cross_entropy(logits, labels)
    (found,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, wanted)


def test_only_padding_gives_zero_with_gradients():
    logits = torch.randn(2, 1, 5, 30, requires_grad=True)
    loss = token_cross_entropy(
        logits, torch.zeros(2, 1, 5, dtype=torch.int64), shift_range=SHIFTS, soft_shift_steps=2.0
    )
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert float(logits.grad.abs().max()) == 0.0


def test_half_precision_logits_are_reduced_in_float32():
    logits = (torch.randn(1, 1, 6, 30) * 5).to(torch.bfloat16)
    labels = torch.randint(1, 30, (1, 1, 6))
    torch.testing.assert_close(
        token_cross_entropy(logits, labels), token_cross_entropy(logits.float(), labels)
    )


def test_soft_targets_charge_less_for_a_step_off_than_for_ten():
    labels = torch.full((1, 1, 1), 10)
    losses = []
    for guess in (10, 11, 19):
        logits = torch.zeros(1, 1, 1, 40)
        logits[..., guess] = 8.0
        losses.append(float(token_cross_entropy(logits, labels, shift_range=SHIFTS, soft_shift_steps=2.0)))
    assert losses[0] < losses[1] < losses[2]


def test_token_losses_are_zero_outside_the_mask():
    labels = torch.tensor([[[5, 1, 0, 0]]])
    mask, losses = token_losses(torch.randn(1, 1, 4, 30), labels)
    assert mask.tolist() == [[[True, True, False, False]]]
    assert float(losses[..., 2:].abs().sum()) == 0.0


@pytest.mark.parametrize("smoothing", [0.1, 0.6])
def test_label_smoothing_equals_torch(smoothing):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 1, 9, 30, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 30, (2, 1, 9), generator=generator)
    expected = F.cross_entropy(
        logits.flatten(0, 2), labels.flatten(), ignore_index=0, label_smoothing=smoothing
    )
    torch.testing.assert_close(token_cross_entropy(logits, labels, label_smoothing=smoothing), expected)
    soft = token_cross_entropy(
        logits, labels, shift_range=SHIFTS, soft_shift_steps=1.0, label_smoothing=smoothing
    )
    assert float(soft.detach()) == pytest.approx(
        (1 - smoothing) * dense_reference(logits.detach(), labels, 1.0, SHIFTS)
        + smoothing * float((torch.logsumexp(logits, -1) - logits.mean(-1))[labels != 0].mean().detach())
    )


def test_class_weights_equal_torch():
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(2, 2, 9, 30, generator=generator, requires_grad=True)
    labels = torch.randint(0, 30, (2, 2, 9), generator=generator)
    weight = torch.ones(30)
    weight[3:20], weight[20:25] = 0.5, 3.0
    expected = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), weight=weight, ignore_index=0)
    loss = token_cross_entropy(logits, labels, class_weights=[(SHIFTS, 0.5), (range(20, 25), 3.0)])
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0])


def test_no_token_with_a_weight_is_zero_with_zero_gradients():
    logits = torch.randn(1, 1, 4, 30, requires_grad=True)
    loss = token_cross_entropy(logits, torch.full((1, 1, 4), 5), class_weights=[(SHIFTS, 0.0)])
    loss.backward()
    assert loss.item() == 0.0
    assert float(logits.grad.abs().max()) == 0.0
