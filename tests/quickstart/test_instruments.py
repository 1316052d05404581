"""Any notes played by the quick-start instruments: what is labelled is what is heard."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

from amt.cli import prepare
from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.notes.note import DRUM_PROGRAM, notes_to_array
from amt.quickstart.bands import Part, PlayedNote, render
from amt.quickstart.instruments import play
from amt.quickstart.songs import package_folder
from amt.quickstart.sound_font import _chunks, _zones, mended

for _package in ("symusic", "pretty_midi"):
    if importlib.util.find_spec(_package) is None:
        pytest.skip(f"needs {_package}", allow_module_level=True)

TUNE = [
    *(Note(0.6 * i, 0.6 * i + 0.55, 60 + 2 * (i % 5), 100, False, 90) for i in range(8)),
    *(Note(1.2 * i, 1.2 * i + 1.1, pitch, 101, False, 80) for i in range(4) for pitch in (64, 67)),
    *(Note(1.2 * i, 1.2 * i + 1.1, 45 + 5 * (i % 2), 33, False, 80) for i in range(4)),
    *(Note(0.3 * i, 0.3 * i + 0.01, 36 if i % 2 else 42, DRUM_PROGRAM, True, 100) for i in range(16)),
]


def pitch_of(sound: np.ndarray, low: float, high: float) -> float:
    """MIDI pitch of a tone: the best lag of its autocorrelation."""
    spectrum = np.fft.rfft(sound * np.hanning(len(sound)), 4 * len(sound))
    likeness = np.fft.irfft(np.abs(spectrum) ** 2)
    first, last = int(16000 / high), int(16000 / low)
    lag = first + int(np.argmax(likeness[first:last]))
    left, here, right = likeness[lag - 1 : lag + 2]
    exact = lag + 0.5 * (left - right) / (left - 2 * here + right)
    return float(69 + 12 * np.log2(16000 / exact / 440))


def test_the_same_notes_and_seed_give_the_same_sound() -> None:
    notes = notes_to_array(TUNE)
    first, programs, played = play(notes, 5)
    again, _, played_again = play(notes, 5)
    assert programs == [33, 100, 101, 128]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert np.array_equal(played, played_again)
    other, _, _ = play(notes, 6)
    assert not np.array_equal(first[1], other[1]), "another seed is another singer"
    assert np.array_equal(played[played["program"] == 33], notes[notes["program"] == 33])


@pytest.mark.parametrize("program", [100, 0, 24, 33, 34, 40, 61, 75, 89])
def test_labels_have_the_pitch_and_time_of_the_sound(program: int) -> None:
    """symusic alone plays most of these programs up to two octaves off (see ``sound_font``)."""
    notes = [Note(0.6 * i, 0.6 * i + 0.55, 45 + 3 * (i % 5), program, False, 90) for i in range(8)]
    stems, programs, played = play(notes_to_array(notes), 5)
    sound = stems[programs.index(program)]
    own = played[played["program"] == program]
    assert own["pitch"].tolist() == [note.pitch for note in notes]
    assert own["onset"] == pytest.approx([note.onset for note in notes], abs=0.021)
    for onset, offset, pitch in zip(own["onset"], own["offset"], own["pitch"], strict=True):
        middle = sound[round((onset + 0.12) * 16000) : round((offset - 0.05) * 16000)]
        heard = pitch_of(middle, 440 * 2 ** ((pitch - 73) / 12), 440 * 2 ** ((pitch - 65) / 12))
        assert heard == pytest.approx(pitch, abs=0.5)


def test_a_long_note_sounds_the_same_whatever_memory_held() -> None:
    """symusic alone reads past the sample of the whistle, whose loop its zone moves (see ``sound_font``)."""
    notes = tuple(PlayedNote(1.7 * i, 1.7 * i + 1.6, 52 + 9 * i, 90) for i in range(4))
    sounds = set()
    for count in (0, 40_000, 150_000):
        waste = [np.full(count, 1e30, dtype=np.float32) for _ in range(20)]
        del waste
        sound = render(Part("whistle", 78, notes), 7 * 16000)
        assert np.abs(sound).max() < 2.0
        sounds.add(sound.tobytes())
    assert len(sounds) == 1


def test_every_loop_lies_inside_its_sample_with_room_behind_it() -> None:
    """What symusic reads past a loop by rounding shows in some memory only, so the font itself is judged."""
    font = mended((package_folder("pretty_midi") / "TimGM6mb.sf2").read_bytes())
    lists = {
        font[at : at + 4]: (at, size) for name, at, size in _chunks(font, 12, len(font)) if name == b"LIST"
    }
    at, size = lists[b"pdta"]
    headers = {name: font[at : at + size] for name, at, size in _chunks(font, at + 4, at + size)}
    generators = [list(item) for item in struct.iter_unpack("<HH", headers[b"igen"])]
    samples = list(struct.iter_unpack("<20sIIIIIBbHH", headers[b"shdr"]))
    looped = 0
    for item, settings in _zones(headers, generators):
        _, start, end, loop_start, loop_end, *_ = samples[item[1]]
        assert not any(settings.get(number, 0) for number in (0, 1, 2, 3, 4, 12, 45, 50))
        if settings.get(54, 0) in (1, 3):
            looped += 1
            assert start <= loop_start < loop_end <= end - 1024
    assert looped > 1000


def test_a_chord_of_voices_is_sung_by_several() -> None:
    stems, programs, played = play(notes_to_array(TUNE), 5)
    assert sorted(played["pitch"][played["program"] == 101].tolist()) == [64] * 4 + [67] * 4
    assert np.abs(stems[programs.index(101)]).max() > 0.01


def test_notes_without_a_sound_have_no_label() -> None:
    """The alto saxophone of the font has nothing for pitch 64."""
    notes = [Note(0.5 * i, 0.5 * i + 0.4, pitch, 65, False, 90) for i, pitch in enumerate((62, 64, 65, 64))]
    with pytest.warns(UserWarning, match=r"2 notes of program 65 cannot be played .*pitch 64"):
        _, _, played = play(notes_to_array(notes), 1)
    assert played["pitch"].tolist() == [62, 65]
    notes = [Note(0.5 * i, 0.5 * i + 0.4, pitch, 100, False, 90) for i, pitch in enumerate((20, 24, 96, 115))]
    with pytest.warns(UserWarning, match=r"2 notes of program 100 cannot be played .*pitch 20, 115"):
        stems, _, played = play(notes_to_array(notes), 1)
    assert played["pitch"].tolist() == [24, 96]
    assert np.isfinite(stems[0]).all()


def test_the_command_makes_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data é"))
    (tmp_path / "midi").mkdir()
    for number in range(2):
        write_midi(TUNE[number:], tmp_path / "midi" / f"tune {number}.mid")
    line = ["midi", str(tmp_path / "midi"), "sung", "--validation-share", "0", "--test-share", "0"]
    assert prepare.main([*line, "--processes", "2"]) == 0
    store = SongStore.open(tmp_path / "data é" / "sung")
    store.check()
    before = store.content_hash("train")
    assert store.song("train", 0).stem_programs == [[33], [100], [101], [128]]
    assert prepare.main([*line, "--processes", "1", "--overwrite"]) == 0
    assert SongStore.open(tmp_path / "data é" / "sung").content_hash("train") == before


def test_a_file_that_is_no_sound_font() -> None:
    with pytest.raises(ValueError, match="no SoundFont"):
        mended(b"RIFF\0\0\0\0WAVE")
