"""Several songs in one stream: each gives what it gives alone, and options of decoding reach the tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from amt.inference import DecodingChoices, SongTranscriber, Transcription, untrained_transcriber
from amt.model.decoder.state import DecodingState

LENGTHS = (20000, 7000, 52000, 8000, 100)


@pytest.fixture(scope="module")
def songs() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.uniform(-0.5, 0.5, length).astype(np.float32) for length in LENGTHS]


@pytest.fixture
def lively(tiny: SongTranscriber) -> SongTranscriber:
    """Random weights that write notes when constrained: they close the ties and seldom end."""
    made = untrained_transcriber(tiny.experiment, DecodingChoices(batch_size=3), seed=3, device="cpu")
    decoder, tokenizer = made.model.decoder, made.tokenizer
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(2.0)
        ids = torch.randint(0, tokenizer.vocab_size, (8, 20), generator=torch.Generator().manual_seed(0))
        common = decoder.hidden(ids, torch.zeros(8, 1, 16)).mean((0, 1))
        common /= common.square().sum()
        decoder.lm_head.weight[tokenizer.tie_id] = 20 * common
        decoder.lm_head.weight[tokenizer.eos_id] = -3 * common
        decoder.lm_head.weight[list(tokenizer.token_range("velocity"))] += 10 * common
    return made


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
