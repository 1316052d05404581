"""Piano rolls and rendered notes."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from matplotlib.image import imread

from amt.inference import draw_piano_roll, render_notes, write_wav
from amt.inference.colours import family_colour, instrument_family
from amt.inference.piano_roll import note_name
from amt.notes import Note


def has_colour(picture: Path, colour: str) -> bool:
    pixels = np.round(imread(picture)[..., :3] * 255).astype(int)
    want = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - want).sum(axis=2) <= 3).sum()) > 150


def test_voice_drums_and_reference_are_seen(tmp_path: Path) -> None:
    notes = [
        Note(0, 5, 60, 100),
        Note(2, 8, 50, 33),
        *(Note(t / 4, t / 4 + 0.01, 36, 128, True) for t in range(30)),
    ]
    draw_piano_roll(tmp_path / "a.png", notes, [Note(6, 9, 70, 100)], 10, "$a_b$ 音")
    for colour in ("#d62750", family_colour("Bass"), family_colour("Drums"), "#c3c9d4"):
        assert has_colour(tmp_path / "a.png", colour), colour
    draw_piano_roll(tmp_path / "b.png", notes[:1])
    assert has_colour(tmp_path / "b.png", "#d62750")
    assert not has_colour(tmp_path / "b.png", "#c3c9d4")


def test_any_length(tmp_path: Path) -> None:
    draw_piano_roll(tmp_path / "a.png", [], [], 0.0)
    draw_piano_roll(tmp_path / "a.png", [Note(t, t + 1, 64) for t in range(0, 7200, 600)], None, 7200.0)
    height = imread(tmp_path / "a.png").shape[0]
    assert height < 8000


def test_names() -> None:
    assert [note_name(p) for p in (60, 61, 69, 0)] == ["C4", "C♯4", "A4", "C-1"]
    families = [Note(0, 1, 60, p) for p in (0, 32, 40, 55, 63, 100, 101, 127)]
    assert [instrument_family(n) for n in families] == [
        "Piano",
        "Bass",
        "Strings",
        "Strings",
        "Brass",
        "Singing voice",
        "Backing voices",
        "Sound effects",
    ]
    assert instrument_family(Note(0, 1, 36, 0, True)) == "Drums"


@pytest.mark.parametrize("program", [0, 16, 24, 33, 48, 56, 65, 73, 80, 90, 100, 101, 110])
@pytest.mark.parametrize("pitch", [36, 60, 69, 84])
def test_rendered_pitch_and_time(program: int, pitch: int) -> None:
    audio = render_notes([Note(0.5, 1.5, pitch, program)], 16000, 2.0)
    assert len(audio) == 32000
    assert audio.dtype == np.float32
    assert np.abs(audio[:7990]).max() == 0
    assert np.abs(audio[25200:]).max() == 0
    part = audio[9600:17792]
    spectrum = np.abs(np.fft.rfft(part * np.hanning(8192), 65536))
    frequency = 440 * 2 ** ((pitch - 69) / 12)
    # The strongest line near the fundamental stands at it, within 25 cents.
    grid = np.fft.rfftfreq(65536, 1 / 16000)
    near = (grid > frequency * 0.8) & (grid < frequency * 1.25)
    found = grid[near][spectrum[near].argmax()]
    assert abs(1200 * np.log2(found / frequency)) < 25


def test_drums_differ_and_are_short() -> None:
    hits = {p: render_notes([Note(0.1, 0.11, p, 128, True)], 16000, 1.5) for p in (36, 38, 42, 45, 49)}
    for audio in hits.values():
        assert np.abs(audio[:1590]).max() == 0
        assert np.abs(audio[1600:3000]).max() > 0.05
        assert np.abs(audio[20800:]).max() < 0.01
    assert not np.allclose(hits[38], hits[42])


def test_bounded_and_repeatable() -> None:
    notes = [Note(0, 1e9, 60), Note(5, 5, 127), Note(-1, 0.5, 0), *[Note(0.2, 0.9, 64, 48)] * 50]
    audio = render_notes(notes)
    assert np.isfinite(audio).all()
    assert np.abs(audio).max() == pytest.approx(0.7, abs=1e-6)
    np.testing.assert_array_equal(audio, render_notes(notes))
    assert not render_notes([], duration=1.0).any()
    assert len(render_notes([Note(3, 4, 60)], 16000, 2.0)) == 32000


def test_wav(tmp_path: Path) -> None:
    audio = render_notes([Note(0, 0.5, 60)])
    write_wav(tmp_path / "a.wav", audio, 16000)
    back, rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    assert rate == 16000
    np.testing.assert_allclose(back, audio, atol=1e-4)
