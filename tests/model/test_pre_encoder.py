"""Convolutions before the encoder."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from amt.model.encoder.pre_conv import ResidualConv
from amt.model.encoder.pre_strided import StridedConv


def test_conv_matches_published(golden, load_published):
    vectors = golden("pre_conv")
    module = ResidualConv(32, 4).eval()
    load_published(module, vectors, "pre_encoder.0.", "pre_encoder.")
    torch.testing.assert_close(module(vectors["in/x"]), vectors["out/y"], atol=1e-5, rtol=1e-5)


def test_conv_training_step_of_batch_norm():
    module = ResidualConv(32, 4)
    x = torch.randn(2, 6, 32)
    y = F.conv2d(x[:, None], module.blocks[0].conv1.weight, padding=1)
    module(x)
    norm = module.blocks[0].bn1
    torch.testing.assert_close(norm.running_mean, 0.1 * y.mean((0, 2, 3)))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * y.var((0, 2, 3)))


def test_conv_needs_eight_bins():
    assert ResidualConv(8, 2)(torch.randn(2, 3, 8)).shape == (2, 3, 1, 2)
    with pytest.raises(ValueError, match="at least 8 bins"):
        ResidualConv(7, 2)


@pytest.mark.parametrize(
    ("time_stride", "frames", "expected"), [(1, 81, 81), (2, 81, 41), (2, 80, 40), (2, 1, 1)]
)
def test_strided_shapes(time_stride, frames, expected):
    module = StridedConv(216, 32, time_stride, bin_positions=True)
    assert (module.out_bins, module.out_channels) == (27, 32)
    assert module(torch.randn(2, frames, 216)).shape == (2, expected, 27, 32)


def test_strided_against_plain_arithmetic():
    module = StridedConv(20, 6, 2, bin_positions=True).eval()
    x = torch.randn(2, 7, 20)
    y = F.gelu(
        module.bn1(F.conv2d(x[:, None], module.conv1.weight.contiguous(), stride=(1, 2), padding=(1, 2)))
    )
    y = F.gelu(module.bn2(F.conv2d(y, module.conv2.weight.contiguous(), stride=2, padding=1)))
    y = F.gelu(module.bn3(F.conv2d(y, module.conv3.weight.contiguous(), stride=(1, 2), padding=1)))
    expected = module.linear(y.permute(0, 2, 3, 1)) + module.bin_positions
    torch.testing.assert_close(module(x), expected)
    assert module.conv1.weight.shape == (3, 1, 3, 5)


def test_strided_frames_stay_on_time():
    """Frame j of the output sees frames 2 j - 4 to 2 j + 4 of the input and no others."""
    module = StridedConv(216, 8, 2, bin_positions=False).eval()
    x = torch.randn(1, 40, 216, requires_grad=True)
    gradient = torch.autograd.grad(module(x)[0, 10].square().sum(), x)[0]
    seen = gradient.abs().sum((0, 2)).nonzero()[:, 0].tolist()
    assert seen == list(range(16, 25))


def test_strided_positions_only_for_bins():
    assert StridedConv(216, 8, 1, bin_positions=False).bin_positions is None
    positions = StridedConv(216, 64, 1, bin_positions=True).bin_positions
    assert positions.shape == (27, 64)
    assert abs(float(positions.std()) - 0.3) < 0.03


def test_harmonics_bring_multiples_of_a_frequency_to_one_place() -> None:
    module = StridedConv(216, 8, 1, bin_positions=False, harmonics=(0.5, 1.0, 2.0, 3.0), bins_per_octave=36)
    x = torch.zeros(1, 2, 216)
    x[..., [64, 100, 136, 157]] = torch.tensor([0.5, 1.0, 2.0, 3.0])
    stacked = module._stack(x)
    assert stacked.shape == (1, 4, 2, 216)
    assert stacked[0, :, 0, 100].tolist() == [0.5, 1.0, 2.0, 3.0]
    assert stacked[0, 2, 0, 200].item() == 0.0, "beyond the top there is nothing"
    assert module(x).shape == (1, 2, 27, 8)
