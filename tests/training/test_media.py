"""Examples of validation for W&B: drawn and sent beside the run, never in its way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from amt.config import WandbConfig
from amt.data.batch import ValidationItem
from amt.evaluation import Scoring
from amt.notes import Note, notes_to_array
from amt.tokenizer import NoteTokenizer
from amt.training.file_loggers import CsvLogger
from amt.training.logger import SteadyWandbLogger, build_loggers
from amt.training.media import EXAMPLE_SECONDS, Example, example_writer
from amt.training.validation import Validator

SAMPLES = 8000
RATE = 16000


class StandIn:
    """A W&B run that remembers."""

    def __init__(self, fails: bool = False) -> None:
        self.logged: list[dict[str, Any]] = []
        self.fails = fails
        self.picture = b""

    def log(self, values: dict[str, Any]) -> None:
        if self.fails:
            raise ConnectionError("the server is gone")
        self.logged.append(values)
        for key, value in values.items():
            if key.endswith("/roll"):  # the file goes when the call has ended
                self.picture = Path(value._path).read_bytes()


def wandb_logger(run: StandIn) -> SteadyWandbLogger:
    logger = SteadyWandbLogger(project="p", name="e", id="abc", mode="offline")
    logger._experiment = run
    return logger


class Silent:
    """A network that hears nothing."""

    def encode(self, audio: torch.Tensor) -> torch.Tensor:
        return audio

    def decode_logits(self, encoded: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*labels.shape, 600)

    def decode_greedily(self, encoded: torch.Tensor, prefix: None = None) -> torch.Tensor:
        return torch.zeros(len(encoded), 1, 4, dtype=torch.int64)


def validator_and_items(count: int, windows: int = 2) -> tuple[Validator, list[ValidationItem]]:
    tokenizer = NoteTokenizer.from_task("mc13_fsingle_vocal", segment_samples=SAMPLES, max_length=64)
    model: Any = Silent()
    validator = Validator(model, tokenizer, {"a": Scoring({"Singing Voice": (100, 101)})}, batch_size=4)
    items = []
    for number in range(count):
        notes = notes_to_array([Note(0.1, 0.3, 60 + number, 100)])
        labels = torch.from_numpy(tokenizer.encode(notes, num_windows=windows))
        sound = torch.arange(windows * SAMPLES).view(windows, 1, SAMPLES) / (windows * SAMPLES)
        length = windows * SAMPLES - 100
        items.append(ValidationItem(True, 0, f"song{number}", sound.float(), labels, notes, length))
    return validator, items


def validate(validator: Validator, items: list[ValidationItem], step: int) -> dict[str, float]:
    from contextlib import nullcontext

    validator.start(nullcontext, torch.device("cpu"))
    for item in items:
        validator.add(item, step)
    return validator.finish(step)


def test_the_same_first_songs_of_each_validation_are_shown() -> None:
    validator, items = validator_and_items(4)
    shown: list[Example] = []
    validator.show_examples(2, shown.append)
    validate(validator, items, 5)
    validate(validator, items, 10)
    validator.close()
    assert [(item.song_id, item.set_name, item.step) for item in shown] == [
        ("song0", "a", 5),
        ("song1", "a", 5),
        ("song0", "a", 10),
        ("song1", "a", 10),
    ]
    first = shown[0]
    assert first.audio.shape == (2 * SAMPLES - 100,)
    assert np.array_equal(first.audio, items[0].audio.flatten()[: 2 * SAMPLES - 100].numpy())
    assert [note.pitch for note in first.reference] == [60]
    assert list(first.estimate) == []


def test_only_the_beginning_of_a_long_song_is_kept() -> None:
    windows = round(EXAMPLE_SECONDS * RATE) // SAMPLES + 3
    validator, items = validator_and_items(1, windows)
    shown: list[Example] = []
    validator.show_examples(1, shown.append)
    validate(validator, items, 1)
    validator.close()
    assert len(shown[0].audio) == EXAMPLE_SECONDS * RATE


def test_no_rank_waits_for_a_picture_and_a_failure_is_only_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sums of all ranks meet in ``finish``; it must return while a picture is still being sent."""
    validator, items = validator_and_items(2)
    release = threading.Event()
    reports: list[str] = []
    monkeypatch.setattr("amt.training.validation.warn_of_own", reports.append)

    def slow(example: Example) -> None:
        assert release.wait(60)
        raise OSError("no room")

    validator.show_examples(2, slow)
    values = validate(validator, items, 1)  # would hang here
    assert "validation/macro_onset_f" in values
    release.set()
    validator.close()
    assert len(reports) == 2
    assert "no room" in reports[0]


def test_an_example_is_a_roll_and_two_sounds() -> None:
    run = StandIn()
    send = example_writer([wandb_logger(run)], RATE)
    assert send is not None
    sound = (0.1 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)
    send(Example("artist/song é", "sines", 7, [Note(0.1, 0.5, 69, 100)], [Note(0.1, 0.4, 69, 100)], sound))
    [values] = run.logged
    assert values.pop("trainer/global_step") == 7
    key = "examples/sines/artist/song é"
    assert set(values) == {f"{key}/roll", f"{key}/song", f"{key}/transcription"}
    assert run.picture.startswith(b"\x89PNG")
    heard, rate = soundfile.read(values[f"{key}/song"]._path)
    assert rate == RATE
    np.testing.assert_allclose(heard, sound, atol=1e-3)
    played, _ = soundfile.read(values[f"{key}/transcription"]._path)
    assert np.abs(np.fft.rfft(played)).argmax() == pytest.approx(440, abs=10)


def test_nothing_when_wandb_is_off(tmp_path: Path) -> None:
    loggers = build_loggers(
        WandbConfig(mode="disabled", examples=3), "p", "e", tmp_path / "p" / "e", "scratch", {}
    )
    assert [type(item) for item in loggers] == [CsvLogger]
    assert example_writer(loggers, RATE) is None
    with pytest.raises(ValueError, match="--wandb-examples"):
        WandbConfig(examples=-1)


def test_a_server_that_is_gone_is_one_notice(capsys: pytest.CaptureFixture[str]) -> None:
    send = example_writer([wandb_logger(StandIn(fails=True))], RATE)
    assert send is not None
    for step in (1, 2):
        send(Example("s", "a", step, [], [], np.zeros(RATE, np.float32)))
    assert capsys.readouterr().out.count("W&B is not used") == 1


def test_a_run_sends_them_and_a_resumed_one_goes_on_in_the_same_wandb_run(
    tiny: Any, sines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline: W&B writes what it would send, media as files."""
    import wandb

    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "logs" / "p" / "shown"
    options = {"wandb__mode": "offline", "wandb__examples": 1, "trainer__val_interval": 1}
    try:
        assert tiny.train(folder, sines, trainer__max_steps=1, **options) == 0
        wandb.finish()
        last = folder / "checkpoints" / "last.ckpt"
        resumed = {"checkpoint": last, "kind": "resume", "step": 1}
        assert tiny.train(folder, sines, trainer__max_steps=2, **resumed, **options) == 0
    finally:
        wandb.finish()
    runs = sorted((tmp_path / "logs" / "wandb").glob("offline-run-*"))
    assert len(runs) == 2
    # The folder's name ends in a counter when two runs of one id begin in the same second.
    names = [file.name for path in runs for file in path.glob("run-*.wandb")]
    assert len(names) == 2
    assert len(set(names)) == 1, "one id, which `wandb sync` joins"
    for path in runs:
        media = path / "files" / "media"
        assert len(list(media.rglob("roll_*.png"))) == 1
        assert len(list(media.rglob("*.wav"))) == 2
