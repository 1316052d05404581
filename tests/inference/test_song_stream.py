"""Several songs in one stream: each gives what it gives alone, and options of decoding reach the tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from amt.inference import DecodingChoices, SongTranscriber, Transcription
from amt.inference.windows import iterate_windows
from amt.model.decoder.state import DecodingState
from amt.notes import Note

LENGTHS = (20000, 7000, 52000, 8000, 100)


@pytest.fixture(scope="module")
def songs() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.uniform(-0.5, 0.5, length).astype(np.float32) for length in LENGTHS]


def again(made: SongTranscriber, **options: Any) -> SongTranscriber:
    choices = DecodingChoices(**{"batch_size": 3} | options)
    return SongTranscriber(made.model, made.experiment, made.tokenizer, choices)


def test_songs_together_equal_songs_alone(lively: SongTranscriber, songs: list[np.ndarray]) -> None:
    model = again(lively, constrain=True)
    together = dict(model.transcribe_songs(songs))
    assert sorted(together) == [0, 1, 2, 3, 4]
    for number, song in enumerate(songs):
        alone, result = model.transcribe(song), together[number]
        assert isinstance(result, Transcription)
        assert result.notes == alone.notes
        assert (result.duration, result.num_windows) == (alone.duration, alone.num_windows)
        assert result.num_windows == max(1, -(-len(song) // 8000))
    assert sum(len(model.transcribe(song).notes) for song in songs) > 5


def test_batches_hold_windows_of_several_songs(
    lively: SongTranscriber, songs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    encode = lively.model.encode
    monkeypatch.setattr(lively.model, "encode", lambda audio: (sizes.append(len(audio)), encode(audio))[1])
    list(lively.transcribe_songs(songs))
    assert sizes == [3, 3, 3, 3, 1]
    decoded: list[int] = []
    step = DecodingState.step
    monkeypatch.setattr(
        DecodingState, "step", lambda self, ids: (decoded.append(self.num_rows), step(self, ids))[1]
    )
    list(lively.transcribe_songs(songs))
    assert max(decoded) == 3


def test_a_broken_file_is_a_result(lively: SongTranscriber, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.wav", tmp_path / "bad.wav"
    soundfile.write(good, np.zeros(20000, np.float32), 16000)
    bad.write_bytes(b"RIFF no sound")
    results = dict(lively.transcribe_songs([bad, good, tmp_path / "missing.wav", good]))
    assert sorted(results) == [0, 1, 2, 3]
    assert isinstance(results[0], Exception)
    assert "bad.wav" in str(results[0])
    assert isinstance(results[2], Exception)
    for number in (1, 3):
        assert isinstance(results[number], Transcription)
    assert dict(lively.transcribe_songs([])) == {}
    with pytest.raises(ValueError, match=r"missing\.wav"):
        lively.transcribe(tmp_path / "missing.wav")


def test_songs_are_opened_when_their_turn_comes(lively: SongTranscriber, songs: list[np.ndarray]) -> None:
    opened: list[int] = []

    def source():
        for number in range(40):
            opened.append(number)
            yield songs[0]

    for number, _ in lively.transcribe_songs(source()):
        assert len(opened) <= number + 6


def test_constraint_and_instruments(lively: SongTranscriber, songs: list[np.ndarray]) -> None:
    free = lively.transcribe(songs[2])
    assert sum(free.errors.values()) > 0
    limited = again(lively, constrain=True).transcribe(songs[2])
    assert set(limited.errors) <= {"Err/merging segment tie", "Err/Missing tie"}
    assert limited.notes
    drums = again(lively, instruments=("drums",)).transcribe(songs[2])
    assert all(note.is_drum for note in drums.notes)
    bass = again(lively, instruments=("Bass",)).transcribe(songs[2])
    assert {note.program for note in bass.notes} <= set(range(32, 40))
    with pytest.raises(ValueError, match="unknown instrument 'Bas'"):
        again(lively, instruments=("Bas",))


def test_decode_precision(tiny: SongTranscriber, songs: list[np.ndarray]) -> None:
    assert tiny.precision == "32"
    reduced = again(tiny, precision="int8")
    assert reduced.transcribe(songs[0]).num_windows == 3
    with pytest.raises(ValueError, match="unknown decode precision"):
        again(tiny, precision="8")


@pytest.mark.parametrize(("seconds", "every"), [(20.3, 1), pytest.param(1800.0, 8, marks=pytest.mark.slow)])
def test_a_song_is_the_sum_of_its_windows(
    lively: SongTranscriber, recorded: Any, seconds: float, every: int
) -> None:
    """Back to back: the tokens of a window are those of the window alone, the notes those of their stitch.

    Of the long song every eighth window is decoded alone.
    """
    song = np.random.default_rng(0).uniform(-0.5, 0.5, int(seconds * 16000)).astype(np.float32)
    model = again(lively, batch_size=64, constrain=True)
    result, rows = recorded(model, song)
    alone = again(lively, batch_size=1, constrain=True)
    windows = np.concatenate(list(iterate_windows(song, 8000, 16000).pieces))
    assert len(rows) == len(windows) == result.num_windows
    for number in range(0, len(windows), every):
        assert recorded(alone, windows[number])[1][0] == rows[number]
    ids = np.zeros((len(rows), 1, max(map(len, rows.values()))), dtype=np.int64)
    for number, row in rows.items():
        ids[number, 0, : len(row)] = row
    end = result.duration
    notes = [note for note in model.tokenizer.decode(ids).notes if note.onset < end]
    stitched = sorted(n if n.is_drum else n._replace(offset=min(n.offset, end)) for n in notes)
    assert result.notes == stitched
    assert len(stitched) > seconds / 2


def test_listener_hears_every_note_once_and_early(lively: SongTranscriber) -> None:
    song = np.random.default_rng(1).uniform(-0.5, 0.5, 160000).astype(np.float32)
    model = again(lively, constrain=True, overlap=0.5)
    heard: list[list[Note]] = []
    done: list[int] = []
    result = model.transcribe(song, progress=lambda at, _: done.append(at), listener=heard.append)
    assert sorted(note for notes in heard for note in notes) == result.notes
    assert len(heard) > 3, "in pieces"
    assert done == list(range(1, result.num_windows + 1))
    short = again(lively, constrain=True, overlap=0.5, min_note_ms=100).transcribe(song)
    assert short.notes == [n for n in result.notes if n.is_drum or n.offset - n.onset >= 0.1 - 1e-9]
    assert len(short.notes) < len(result.notes)
