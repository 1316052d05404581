"""Tensors that published files store although a formula gives them."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
import torchaudio

from amt.config.published_models import PUBLISHED_MODELS
from amt.model.importing.computed import computed_tensors, differing, is_computed, num_positions


@pytest.mark.parametrize("layout", PUBLISHED_MODELS)
def test_they_are_those_of_the_published_files(samples: ModuleType, layout: str) -> None:
    expected = {name: shape for name, shape, _ in samples.STATE_KEYS[layout] if is_computed(name)}
    found = computed_tensors(samples.published(layout))
    assert {name: list(value.shape) for name, value in found.items()} == expected
    assert all(value.dtype == torch.float32 for value in found.values())


def test_front_end_equals_torchaudio(samples: ModuleType) -> None:
    theirs = torchaudio.transforms.MelSpectrogram(
        16000, n_fft=2048, hop_length=128, f_min=50.0, f_max=8000.0, n_mels=512
    )
    ours = computed_tensors(samples.published("ymt3plus"))
    prefix = "spectrogram.mel_stft."
    torch.testing.assert_close(ours[prefix + "spectrogram.window"], theirs.spectrogram.window)
    torch.testing.assert_close(ours[prefix + "mel_scale.fb"], theirs.mel_scale.fb, atol=2e-4, rtol=0)


def test_positions_and_frequencies(samples: ModuleType) -> None:
    table = computed_tensors(samples.published("ymt3plus"))["decoder.decoder.additive_pe.weight"]
    for row, column in [(0, 0), (7, 3), (1033, 255)]:
        angle = row / 10000 ** (2 * column / 512)
        assert float(table[row, column]) == pytest.approx(math.sin(angle), abs=1e-5)
        assert float(table[row, 256 + column]) == pytest.approx(math.cos(angle), abs=1e-5)
    rope = computed_tensors(samples.published("yptf_moe_multi"))
    pixel = torch.tensor([math.pi, 5 * math.pi])
    torch.testing.assert_close(rope["encoder.rotary_emb_sca.freqs"], pixel)
    torch.testing.assert_close(rope["encoder.rotary_emb_latent.freqs"], pixel)
    torch.testing.assert_close(rope["encoder.rotary_emb_temporal.freqs"], torch.tensor([1.0, 0.01]))
    inverse = computed_tensors(samples.published("conformer_t5"))["encoder.embed_positions.inv_freq"]
    assert float(inverse[1]) == pytest.approx(10000 ** (-2 / 64), rel=1e-6)


def test_rows_of_the_position_table(samples: ModuleType) -> None:
    assert num_positions(samples.published("yptf_multi")) == 1034
    assert num_positions(samples.published("ptf_t5")) == 2058
    assert num_positions(samples.published("yptf_single", task="singing_v1")) == 1036
    assert num_positions(samples.published("yptf_single", event_length=64)) == 120


def test_other_values_are_named(samples: ModuleType) -> None:
    experiment = samples.small("yptf_moe_multi")
    state = computed_tensors(experiment)
    assert differing(state, experiment) == []
    half = {name: value.half() for name, value in state.items()}
    assert differing(half, experiment) == [], "half precision is near enough"
    window = "spectrogram.stft.window"
    assert differing(state | {window: torch.hamming_window(2048)}, experiment) == [
        f"{window} has other values than the published formula"
    ]
    assert differing(state | {window: torch.hann_window(1024)}, experiment) == [
        f"{window} is (1024,), not (2048,)"
    ]
    inverse = "encoder.embed_positions.inv_freq"
    assert differing(state | {inverse: torch.ones(4)}, experiment) == [
        f"{inverse} belongs to no part of this model"
    ]
