"""What is asked for is forced at the start of every sequence, and said in the output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mido
import numpy as np
import pytest
import soundfile
import torch

from amt.config import Experiment
from amt.inference import DecodingChoices, SongTranscriber, load_transcriber, untrained_transcriber
from amt.inference.choices import chosen_subtask
from amt.inference.outputs import WRITERS
from amt.inference.predict import run_predict
from amt.inference.transcriber import Transcription
from amt.notes import Note, read_midi
from amt.tokenizer import NoteTokenizer

SINGING_ONLY = DecodingChoices(subtask="singing-only")


@pytest.fixture(scope="module")
def singing(tiny: SongTranscriber) -> Experiment:
    return replace(tiny.experiment, exp_id="singing", task="singing_v1")


@pytest.fixture(scope="module")
def singing_log(singing: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with a checkpoint of a singing task."""
    root = tmp_path_factory.mktemp("logs")
    folder = root / "ymt3" / "singing" / "checkpoints"
    folder.mkdir(parents=True)
    model = untrained_transcriber(singing, seed=2, device="cpu").model
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    text = singing.to_json()
    torch.save(
        {"amt_format": 1, "experiment": text, "state_dict": state, "global_step": 1}, folder / "last.ckpt"
    )
    return root


@pytest.mark.parametrize(
    ("subtask", "prefix"), [(None, [5, 3]), ("default", [5, 3]), ("singing-only", [4, 3]), ("none", [])]
)
def test_every_sequence_begins_with_what_is_asked_for(
    singing_log: Path, recorded: Any, subtask: str | None, prefix: list[int]
) -> None:
    transcriber = load_transcriber(
        "singing", DecodingChoices(subtask=subtask), device="cpu", log_dir=singing_log
    )
    audio = np.random.default_rng(0).normal(0, 0.1, 20_000).astype(np.float32)
    _, rows = recorded(transcriber, audio)
    assert len(rows) == 3
    ids = np.zeros((3, 1, max(map(len, rows.values()))), dtype=np.int64)
    for number, row in rows.items():
        ids[number, 0, : len(row)] = row
    assert (ids[:, 0, : len(prefix)] == prefix).all()
    assert ids.shape[2] <= transcriber.tokenizer.sequence_length
    windows = np.zeros((3, 8000), dtype=np.float32)
    windows.reshape(-1)[: len(audio)] = audio
    first = torch.tensor([prefix] * 3) if prefix else None
    direct = transcriber.model.generate(torch.from_numpy(windows)[:, None], prefix=first).numpy()
    np.testing.assert_array_equal(direct, ids[:, :, : direct.shape[2]])


def test_the_decoder_is_conditioned_on_the_prefix(singing_log: Path) -> None:
    """What follows is what teacher forcing finds likeliest after that prefix."""
    transcriber = load_transcriber("singing", SINGING_ONLY, device="cpu", log_dir=singing_log)
    audio = torch.randn(2, 1, 8000, generator=torch.Generator().manual_seed(0)) * 0.1
    prefix = torch.tensor([[4, 3], [5, 3]])
    ids = transcriber.model.generate(audio, prefix=prefix)
    assert ids[:, 0, :2].tolist() == prefix.tolist()
    with torch.no_grad():
        likeliest = transcriber.model(audio, ids).argmax(-1)
    for row, best in zip(ids[:, 0].tolist(), likeliest[:, 0].tolist(), strict=True):
        end = row.index(1) + 1 if 1 in row else len(row)
        assert row[2:end] == best[2:end]


def test_names_that_are_no_sub_task(singing_log: Path, tiny: SongTranscriber) -> None:
    with pytest.raises(ValueError, match="sub-task of singing_v1 'singing'; did you mean 'singing-only'"):
        load_transcriber("singing", DecodingChoices(subtask="singing"), device="cpu", log_dir=singing_log)
    with pytest.raises(ValueError, match="the task mc13_fsingle has no sub-tasks; leave --subtask out"):
        chosen_subtask(tiny.tokenizer, "default")
    assert chosen_subtask(tiny.tokenizer, None) is None
    assert chosen_subtask(tiny.tokenizer, "none") is None
    drums = NoteTokenizer.from_task("singing_drum_v1", segment_samples=8000)
    assert chosen_subtask(drums, "drum-only") == "drum-only"


def test_predict_says_what_it_was_asked_for(
    singing_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audio = tmp_path / "song.wav"
    soundfile.write(audio, np.zeros(8000), 16000)
    options: dict[str, Any] = {"log_dir": singing_log, "device": "cpu", "formats": ("mid",)}
    assert run_predict("singing", [audio], choices=SINGING_ONLY, **options) == 0
    assert "task singing_v1 (singing-only), on cpu" in capsys.readouterr().out
    assert run_predict("singing", [audio], choices=DecodingChoices(subtask="drums"), **options) == 2
    assert "sub-task of singing_v1 'drums'" in capsys.readouterr().err


def test_tracks_are_named_after_classes_and_voices_read_back(tmp_path: Path, tiny: SongTranscriber) -> None:
    notes = [Note(0, 1, 60, 0), Note(0, 1, 62, 40), Note(0, 1, 64, 100), Note(0, 1, 65, 101)]
    names = tiny.transcribe(np.zeros(8000)).class_names
    song = Transcription(notes, 1.0, class_names=names)
    path = tmp_path / "song.mid"
    WRITERS["mid"](path, song, None, "")
    with path.open("rb") as stream:
        tracks = [track.name for track in mido.MidiFile(file=stream).tracks]
    assert tracks == ["", "Piano", "Strings", "Singing Voice", "Singing Voice (chorus)"]
    assert [note.program for note in read_midi(path)] == [0, 40, 100, 101]
