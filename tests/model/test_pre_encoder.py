"""Convolutions before the encoder."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from amt.model.encoder.pre_context import ContextConv, ResidualContextConv
from amt.model.encoder.pre_conv import ResidualConv
from amt.model.encoder.pre_strided import StridedConv


def test_conv_matches_published(golden, load_published):
    vectors = golden("pre_conv")
    module = ResidualConv(32, 4).eval()
    load_published(module, vectors, "pre_encoder.0.", "pre_encoder.")
    torch.testing.assert_close(module(vectors["in/x"]), vectors["out/y"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "kernel"), [("pre_conv1d_t", (3, 1)), ("pre_conv1d_f", (1, 3))])
def test_one_dimensional_conv_matches_published(golden, load_published, name, kernel):
    vectors = golden(name)
    module = ResidualConv(32, 4, kernel).eval()
    load_published(module, vectors, "pre_encoder.0.", "pre_encoder.")
    torch.testing.assert_close(module(vectors["in/x"]), vectors["out/y"], atol=1e-5, rtol=1e-5)


def test_hftt_matches_published(golden):
    vectors = golden("pre_hftt")
    module = ContextConv(128, 128)
    names = {"conv.weight", "conv.bias", "emb_freq.weight", "emb_freq.bias"}
    module.load_state_dict({name.replace("emb_freq", "linear"): vectors[f"sd/{name}"] for name in names})
    y = module(vectors["in/x"])
    torch.testing.assert_close(y[:, :, ::2, ::2], vectors["out/y"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("bins", "channels"), [(12, 7), (128, 16)])
def test_hftt_sizes_are_free(bins, channels):
    module = ContextConv(bins, channels)
    assert module(torch.rand(2, 9, bins)).shape == (2, 9, bins, channels)
    assert (module.out_bins, module.out_channels) == (bins, channels)


def test_res3b_hftt_is_blocks_then_windows():
    module = ResidualContextConv(16, 6).eval()
    assert (module.out_bins, module.out_channels) == (2, 6)
    x = torch.rand(2, 5, 16)
    wide = torch.cat([torch.full((2, 15, 16), 1e-7), x, torch.full((2, 16, 16), 1e-7)], dim=1)
    y = wide[:, None]
    for block in module.blocks:
        y = block(y)
    expected = torch.stack(
        [
            torch.stack([module.linear(y[:, :, t : t + 32, f].reshape(2, -1)) for f in range(2)], dim=1)
            for t in range(5)
        ],
        dim=1,
    )
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("kind", ["hftt", "res3b_hftt"])
def test_context_windows_stay_on_time(kind):
    """Frame j sees frames j - 15 to j + 16 and what the convolutions add, and no others."""
    reach = {"hftt": 2, "res3b_hftt": 6}[kind]
    module = {"hftt": ContextConv, "res3b_hftt": ResidualContextConv}[kind](16, 8).eval()
    x = torch.rand(1, 80, 16, requires_grad=True)
    gradient = torch.autograd.grad(module(x)[0, 40].square().sum(), x)[0]
    seen = gradient.abs().sum((0, 2)).nonzero()[:, 0].tolist()
    assert (seen[0], seen[-1]) == (40 - 15 - reach, 40 + 16 + reach)


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
