"""Front ends against the published vectors and against torchaudio."""

from __future__ import annotations

import math

import pytest
import torch
import torchaudio

from amt.config import AudioConfig
from amt.model.frontend import build_frontend
from amt.model.frontend.log_frequency import log_frequency_filters
from amt.model.frontend.mel import mel_filters


def config(codec, hop=300, samples=24000, **more):
    return AudioConfig(codec=codec, hop_length=hop, segment_samples=samples, **more)


@pytest.mark.parametrize(
    ("name", "codec", "hop"),
    [("front_spec128", "spec", 128), ("front_spec300", "spec", 300), ("front_mel128_512", "melspec", 128)],
)
def test_matches_published(golden, name, codec, hop):
    vectors = golden(name)
    y = build_frontend(config(codec, hop, 4000))(vectors["in/x"])
    assert y.shape == (2, 4000 // hop + 1, {"spec": 1024, "melspec": 512}[codec])
    torch.testing.assert_close(y[:, ::3, ::2], vectors["out/y"], atol=5e-5, rtol=0)
    assert (y[1] == 0).all(), "the second example is silent"


def test_spec_against_torchaudio():
    audio = torch.randn(2, 1, 5000)
    judge = torchaudio.transforms.Spectrogram(n_fft=2048, hop_length=300, power=1.0)(audio[:, 0])
    y = torch.log(judge.transpose(1, 2)[:, :, 1:] + 1e-5)
    low, high = y.amin((1, 2), keepdim=True), y.amax((1, 2), keepdim=True)
    expected = (y - low) / (high - low + 0.008)
    torch.testing.assert_close(build_frontend(config("spec"))(audio), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("bands", [64, 229, 512])
def test_mel_filters_against_torchaudio(bands):
    audio = config("melspec", n_mels=bands)
    judge = torchaudio.functional.melscale_fbanks(1025, 50.0, 8000.0, bands, 16000)
    torch.testing.assert_close(mel_filters(audio), judge, atol=1e-4, rtol=0)


def test_log_filters_sum_to_one_and_stay_narrow():
    filters = log_frequency_filters(config("logspec"))
    assert filters.shape == (1025, 216)
    torch.testing.assert_close(filters.sum(0), torch.ones(216))
    assert ((filters > 0).sum(0) >= 1).all()
    # At 110 Hz a third of a semitone is less than an FFT bin: no triangle is wider than one bin each side.
    assert int((filters[:, 21] > 0).sum()) <= 2
    # High up the triangles reach exactly to the neighbours' centres.
    centre = 440.0 * 2 ** ((38 + 200 / 3 - 69) / 12)
    right = 440.0 * 2 ** ((38 + 201 / 3 - 69) / 12)
    used = filters[:, 200].nonzero()[:, 0] * 16000 / 2048
    assert centre < used.max() < right
    assert right - used.max() < 16000 / 2048


@pytest.mark.parametrize("pitch", [45, 69, 92, 105])
def test_log_bins_follow_pitch(pitch):
    time = torch.arange(24000) / 16000
    sine = torch.sin(2 * math.pi * 440.0 * 2 ** ((pitch - 69) / 12) * time)[None, None]
    y = build_frontend(config("logspec"))(sine)
    assert y.shape == (1, 81, 216)
    peak = y[0, 10:70].mean(0).argmax()
    assert abs(int(peak) - 3 * (pitch - 38)) <= (2 if pitch < 50 else 0)


def test_logspec_numbers():
    audio = torch.randn(2, 1, 24000) * 0.1
    spectrum = torch.stft(audio[:, 0], 2048, 300, window=torch.hann_window(2048), return_complex=True)
    y = torch.log(spectrum.abs().transpose(1, 2) @ log_frequency_filters(config("logspec")) + 1e-3)
    expected = torch.stack([(one - one.mean()) / 2.5 for one in y])
    torch.testing.assert_close(build_frontend(config("logspec"))(audio), expected, atol=1e-4, rtol=1e-4)
    louder = build_frontend(config("logspec"))(audio * 2)
    torch.testing.assert_close(louder, expected, atol=5e-3, rtol=0, msg="loudness drops out")


@pytest.mark.parametrize("codec", ["spec", "melspec", "logspec"])
def test_silence_short_and_mixed_precision(codec):
    frontend = build_frontend(config(codec))
    silent = frontend(torch.zeros(1, 1, 24000))
    assert silent.isfinite().all()
    assert silent.abs().max() < 1e-5
    for samples in (1, 299, 300, 1024, 1025):
        short = frontend(torch.randn(2, 1, samples))
        assert short.shape[1] == samples // 300 + 1
        assert short.isfinite().all()
    audio = torch.randn(1, 1, 8000)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = frontend(audio)
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, frontend(audio))
    assert not frontend.state_dict(), "window and filters are computed, not saved"


def test_refusals():
    with pytest.raises(ValueError, match="above half the sample rate"):
        build_frontend(config("logspec", log_bins=300))
