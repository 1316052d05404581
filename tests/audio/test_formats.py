"""Every format and header that turns up: read rightly, or refused with the file's name (cases D40 to D47)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.audio import AudioError, audio_length, iterate_blocks, read_audio

TONE = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
PCM = np.rint(TONE * 32767).astype("<i2").tobytes()


def tone(rate: int, channels: int = 1) -> np.ndarray:
    """A second of 440 Hz, (frames, channels)."""
    return np.tile(0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)[:, None], channels)


def wav(
    *,
    data: bytes = PCM,
    size: int | None = None,
    riff: int | None = None,
    before: bytes = b"",
    after: bytes = b"",
    rate: int = 16000,
    channels: int = 1,
    kind: int = 1,
) -> bytes:
    """A WAV file of 16 bits with the sizes that its header is to state."""
    form = struct.pack("<HHIIHH", kind, channels, rate, 2 * rate * channels % 2**32, 2 * channels, 16)
    body = b"WAVEfmt \x10\0\0\0" + form + before
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data + after
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


def is_the_tone(audio: np.ndarray, tolerance: int = 2) -> None:
    assert abs(len(audio) - 16000) <= tolerance
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio)), 1 << 17))
    assert spectrum.argmax() * 16000 / (1 << 17) == pytest.approx(440, abs=1)
    middle = audio[2000:14000]
    assert float(np.abs(middle).max()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize(
    ("container", "coding"),
    [
        ("WAV", "PCM_U8"),
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "PCM_32"),
        ("WAV", "FLOAT"),
        ("WAV", "DOUBLE"),
        ("WAV", "ULAW"),
        ("WAV", "ALAW"),
        ("WAVEX", "PCM_24"),
        ("RF64", "PCM_16"),
        ("W64", "PCM_24"),
        ("AIFF", "PCM_16"),
        ("AIFF", "PCM_S8"),
        ("CAF", "PCM_32"),
        ("AU", "ULAW"),
        ("FLAC", "PCM_24"),
        ("OGG", "VORBIS"),
        ("MP3", "MPEG_LAYER_III"),
    ],
)
def test_every_format(tmp_path: Path, container: str, coding: str, rate: int, channels: int) -> None:
    if container == "MP3" and channels > 2:
        pytest.skip("MP3 has two channels at most")
    path = tmp_path / "no ending"
    soundfile.write(path, tone(rate, channels), rate, format=container, subtype=coding)
    audio = read_audio(path)
    is_the_tone(audio)
    assert audio_length(path) == len(audio)
    np.testing.assert_array_equal(np.concatenate(list(iterate_blocks(path, 5000))), audio)


@pytest.mark.parametrize(
    ("container", "coding"),
    [
        ("WAV", "IMA_ADPCM"),
        ("WAV", "MS_ADPCM"),
        ("WAV", "GSM610"),
        ("WAV", "G721_32"),
        ("CAF", "ALAC_16"),
        ("OGG", "OPUS"),
    ],
)
def test_codings_of_recorders_and_telephones(tmp_path: Path, container: str, coding: str) -> None:
    """Cases D40 and D41: whole and in part, also where the decoder cannot seek."""
    path = tmp_path / "no ending"
    soundfile.write(path, tone(16000)[:, 0], 16000, format=container, subtype=coding)
    audio = read_audio(path)
    assert audio_length(path) == len(audio)
    assert 16000 <= len(audio) < 16600, "these codings have blocks"
    is_the_tone(audio[:16000])
    np.testing.assert_array_equal(np.concatenate(list(iterate_blocks(path, 5000))), audio)
    np.testing.assert_allclose(read_audio(path, start=3000, stop=4000), audio[3000:4000], atol=2e-4)


@pytest.mark.parametrize("rate", [4000, 7350, 11127, 96000, 192000, 384000])
def test_any_rate(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "song.wav"
    soundfile.write(path, tone(rate), rate)
    is_the_tone(read_audio(path), tolerance=16)


@pytest.mark.parametrize(
    "content",
    [
        wav(size=0xFFFFFFFF, riff=0xFFFFFFFF),
        wav(riff=0),
        wav(size=10**8, riff=10**8),
        wav(data=PCM[:-1]),
        wav(after=b"garbage" * 100),
        wav(after=b"LIST\x04\0\0\0INFO"),
        wav(before=b"LIST\x12\0\0\0INFOISFT\x05\0\0\0Lavf\0\0"),
        wav(before=b"JUNK\x03\0\0\0abc\0"),
    ],
    ids=["streamed", "no riff size", "size too large", "odd", "garbage", "list after", "list before", "junk"],
)
def test_headers_that_are_wrong_but_clear(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "song.wav"
    path.write_bytes(content)
    is_the_tone(read_audio(path))


@pytest.mark.parametrize(
    "content",
    [
        wav(rate=0),
        wav(channels=0),
        wav(rate=2**31),
        wav(kind=0x1234),
        wav()[:20],
        wav()[:36],
        wav(before=b"JUNK\0\0\0\x80ab"),
    ],
    ids=["rate 0", "no channels", "absurd rate", "unknown kind", "cut in fmt", "no data", "chunk too large"],
)
def test_headers_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken é.wav"
    path.write_bytes(content)
    with pytest.raises(AudioError, match=r"broken é\.wav: cannot be read as audio"):
        read_audio(path)


def test_a_header_that_denies_its_samples_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "recorder.wav"
    path.write_bytes(wav(size=0, riff=0))
    with pytest.raises(AudioError, match=r"recorder\.wav: its header says that it holds no samples"):
        read_audio(path)


def test_an_ogg_that_is_cut_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "song.ogg"
    soundfile.write(path, tone(44100, 2), 44100, format="OGG")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(AudioError, match=r"song\.ogg: (its header says|cannot be read as audio)"):
        read_audio(path)


@pytest.mark.parametrize("damage", ["cut", "hole"])
def test_an_mp3_that_ends_before_its_header_says_so(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "song.mp3"
    soundfile.write(path, tone(44100, 2), 44100, format="MP3")
    content = path.read_bytes()
    path.write_bytes(content[:4000] if damage == "cut" else content[:3000] + bytes(900) + content[3900:])
    with pytest.warns(
        UserWarning, match=r"song\.mp3: it ends after 0\.\d+ s, its header says 1\.00 s"
    ) as said:
        audio = read_audio(path)
    assert len(said) == 1
    assert 4000 < len(audio) < 15000


def test_a_damaged_flac_is_named(tmp_path: Path) -> None:
    path = tmp_path / "song.bin"
    rng = np.random.default_rng(0)
    soundfile.write(path, rng.uniform(-0.4, 0.4, 44100), 44100, format="FLAC")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(AudioError, match=r"song\.bin: is damaged and cannot be read to its end"):
        read_audio(path)


def test_an_mp3_with_a_long_tag_keeps_its_time(tmp_path: Path) -> None:
    """Clicks stay where they are whatever lies before the first frame (case D46)."""
    audio = np.zeros(2 * 44100)
    audio[44100 // 2 : 44100 // 2 + 200] = 0.8
    plain, tagged, ogg = tmp_path / "plain.mp3", tmp_path / "tagged.mp3", tmp_path / "w17.ogg"
    soundfile.write(plain, audio, 44100, format="MP3")
    soundfile.write(ogg, audio, 44100, format="OGG", subtype="VORBIS")
    tagged.write_bytes(b"ID3\x04\0\0\0\0\x0f\0" + bytes(15 * 128) + plain.read_bytes())
    for path in (plain, tagged, ogg):
        heard = read_audio(path)
        assert np.flatnonzero(np.abs(heard) > 0.4)[0] / 16000 == pytest.approx(0.5, abs=0.005)
        part = read_audio(path, start=7000, stop=9000)
        np.testing.assert_allclose(part, heard[7000:9000], atol=2e-4)
