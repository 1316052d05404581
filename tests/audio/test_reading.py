"""Reading audio files: the case files, parts against the whole, and damage."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from amt.audio import AudioError, audio_info, audio_length, is_audio_file, iterate_blocks, read_audio

CASES = Path(__file__).parent.parent / "data" / "audio"

TONES = [
    ("w01_stereo_44100.wav", 8000, [440, 880]),
    ("w02_24bit_extensible_48000.wav", 6400, [440]),
    ("w03_8bit_unsigned_8000.wav", 8000, [440]),
    ("w20_float64.wav", 4000, [440]),
    ("w15_UPPER.WAV", 4000, [440]),
    ("w31_audio_1s.wav", 16000, [261.6]),
]


def peaks_hz(audio: np.ndarray, count: int) -> list[float]:
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio)), 1 << 16))
    found = []
    for _ in range(count):
        top = int(spectrum.argmax())
        found.append(top * 16000 / (1 << 16))
        spectrum[max(0, top - 400) : top + 400] = 0
    return sorted(found)


def clicks(audio: np.ndarray) -> list[float]:
    loud = np.flatnonzero(np.abs(audio) > 0.5)
    starts = loud[np.concatenate(([True], np.diff(loud) > 1000))]
    return [float(start) / 16000 for start in starts]


@pytest.mark.parametrize(("name", "samples", "peaks"), TONES)
def test_every_format_becomes_mono_16_khz(name: str, samples: int, peaks: list[float]) -> None:
    audio = read_audio(CASES / name)
    assert audio.dtype == np.float32
    assert audio.ndim == 1
    assert len(audio) == audio_length(CASES / name)
    assert abs(len(audio) - samples) <= 2
    assert peaks_hz(audio, len(peaks)) == pytest.approx(peaks, abs=4)
    assert abs(float(audio.mean())) < 0.01
    if len(peaks) == 1:
        assert float(np.abs(audio).max()) == pytest.approx(0.5, abs=0.02)


def test_names_with_any_character() -> None:
    names = sorted((CASES / "names").iterdir())
    assert len(names) == 4
    for path in names:
        assert abs(len(read_audio(path)) - 4000) <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the name")
def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / b"caf\xe9 -x.wav".decode("utf-8", "surrogateescape")
    shutil.copyfile(CASES / "w31_audio_1s.wav", path)
    assert len(read_audio(path)) == 16000


def test_mp3_has_no_codec_delay_and_is_known_by_content() -> None:
    expected = clicks(read_audio(CASES / "w14_clicks.flac"))
    assert expected == pytest.approx([0.5, 1.5], abs=0.001)
    for name in ("w14_clicks.mp3", "w13_mp3_named_wav.wav"):
        assert clicks(read_audio(CASES / name)) == pytest.approx(expected, abs=0.01)
    assert audio_info(CASES / "w13_mp3_named_wav.wav").container == "MP3"


@pytest.mark.parametrize(
    "name", ["w14_clicks.mp3", "w14_clicks.flac", "w01_stereo_44100.wav", "w03_8bit_unsigned_8000.wav"]
)
def test_a_part_equals_the_same_part_of_the_whole(name: str) -> None:
    path = CASES / name
    whole = read_audio(path)
    for start, stop in ((0, 100), (1, 2), (777, 5777), (len(whole) - 500, len(whole)), (3000, None)):
        part = read_audio(path, start=start, stop=stop)
        expected = whole[start:stop]
        assert part.shape == expected.shape
        np.testing.assert_allclose(part, expected, atol=2e-4)
    assert len(read_audio(path, start=len(whole) + 5)) == 0
    assert len(read_audio(path, start=5, stop=5)) == 0


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000])
@pytest.mark.parametrize("block", [1000, 4096, 1_000_000])
def test_blocks_join_to_the_whole(tmp_path: Path, rate: int, block: int) -> None:
    rng = np.random.default_rng(rate)
    samples = rng.uniform(-0.4, 0.4, (int(rate * 1.3), 2)).astype(np.float32)
    path = tmp_path / "noise.wav"
    soundfile.write(path, samples, rate, subtype="FLOAT")
    blocks = list(iterate_blocks(path, block))
    whole = read_audio(path)
    assert all(len(item) == block for item in blocks[:-1])
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    judge = soxr.resample(samples.mean(axis=1), rate, 16000)
    assert abs(len(judge) - len(whole)) <= 1
    np.testing.assert_allclose(whole[: len(judge)], judge[: len(whole)], atol=1e-4)


def test_a_part_of_a_resampled_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for rate in (11025, 44100, 48000, 22050):
        path = tmp_path / f"{rate}.flac"
        soundfile.write(path, rng.uniform(-0.4, 0.4, rate * 6), rate)
        whole = read_audio(path)
        for start in (1, 16000, 47123, 80000):
            np.testing.assert_allclose(
                read_audio(path, start=start, stop=start + 3000), whole[start : start + 3000], atol=2e-4
            )


def test_nan_inf_and_huge_samples_become_zero_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="w05_float32_nan_inf") as said:
        audio = read_audio(CASES / "w05_float32_nan_inf.wav")
    assert len(said) == 1
    assert np.isfinite(audio).all()
    assert float(np.abs(audio).max()) <= 1.0

    samples = np.full(300_000, 0.25)
    samples[1000] = 1e29
    samples[200_000] = -1e300
    samples[5] = 7.0
    for subtype, bad in (("FLOAT", 1), ("DOUBLE", 2)):
        path = tmp_path / f"{subtype}.wav"
        kept = samples if subtype == "DOUBLE" else np.clip(samples, -3e38, 3e38)
        if subtype == "FLOAT":
            kept[200_000] = 0.25
        soundfile.write(path, kept, 16000, subtype=subtype)
        with pytest.warns(UserWarning, match=f"{bad} samples .*clipped") as said:
            audio = read_audio(path)
        assert len(said) == 1
        assert audio[1000] == 0
        assert audio[5] == 1.0
        assert audio[999] == np.float32(0.25)


def test_silence_and_short_files() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not read_audio(CASES / "w06_silence_2s.wav").any()
        assert read_audio(CASES / "w07_no_frames.wav").shape == (0,)
        assert list(iterate_blocks(CASES / "w07_no_frames.wav", 100)) == []
        assert len(read_audio(CASES / "w08_one_sample.wav")) == 1
        assert len(read_audio(CASES / "w08b_100_samples.wav")) == 100


def test_errors_name_the_file(tmp_path: Path) -> None:
    text = tmp_path / "notes é.txt"
    text.write_text("no audio in here, only text that goes on for a while")
    raw = tmp_path / "data.raw"
    raw.write_bytes(bytes(100))
    empty = tmp_path / "empty.wav"
    empty.touch()
    for path in (text, raw, empty, tmp_path / "gone.wav", tmp_path):
        with pytest.raises(AudioError, match=path.name):
            read_audio(path)
        assert not is_audio_file(path)
    with pytest.raises(ValueError, match="cannot read samples"):
        read_audio(CASES / "w31_audio_1s.wav", start=-1)


def test_a_cut_file_gives_what_it_holds(tmp_path: Path) -> None:
    source = (CASES / "w31_audio_1s.wav").read_bytes()
    path = tmp_path / "cut.wav"
    path.write_bytes(source[: len(source) // 2])
    audio = read_audio(path)
    assert 0 < len(audio) < 16000


def test_one_channel_alone(tmp_path: Path) -> None:
    left, right = np.full(32000, 0.25), np.linspace(-0.5, 0.5, 32000)
    soundfile.write(tmp_path / "two.wav", np.stack([left, right], axis=1), 32000, subtype="FLOAT")
    whole = read_audio(tmp_path / "two.wav", channel=1)
    assert np.abs(whole[100:-100] - right[::2][100:-100]).max() < 1e-3
    part = read_audio(tmp_path / "two.wav", start=4000, stop=5000, channel=1)
    assert np.abs(part - whole[4000:5000]).max() < 1e-6
    assert np.abs(read_audio(tmp_path / "two.wav", channel=0)[100:-100] - 0.25).max() < 1e-3
    with pytest.raises(AudioError, match=r"two.wav: has 2 channels; there is no channel 2"):
        read_audio(tmp_path / "two.wav", channel=2)
