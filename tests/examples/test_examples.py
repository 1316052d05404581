"""The programs of examples/, run as their first lines say, on small data."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amt.cli.prepare import main as prepare
from amt.config import (
    AudioConfig,
    Experiment,
    ModelConfig,
    PerceiverTFConfig,
    PreEncoderConfig,
    T5DecoderConfig,
)
from amt.inference import load_transcriber
from amt.model import build_from
from amt.model.checkpoint_content import description
from amt.notes import Note, read_midi, write_midi
from amt.tokenizer import NoteTokenizer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RATE = 16000
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """``python <command>`` in the checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AMT_", "WANDB_"))}
    environment |= {
        "AMT_DATA_HOME": str(home / "data"),
        "AMT_LOG_DIR": str(home / "logs"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def write_song(path: Path, notes: list[Note], seconds: float) -> None:
    """Sines as a WAV file of 16 bit, and the notes beside it."""
    time = np.arange(round(seconds * RATE)) / RATE
    sound = np.zeros(len(time))
    for note in notes:
        on = (time >= note.onset) & (time < note.offset)
        sound += 0.2 * on * np.sin(2 * np.pi * 440 * 2 ** ((note.pitch - 69) / 12) * time)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    write_midi(notes, path.with_suffix(".mid"))


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve songs of a bass and a piano."""
    folder = tmp_path_factory.mktemp("songs é")
    for number in range(12):
        notes = [Note(0.3 * i, 0.3 * i + 0.25, 36 + (5 * i + number) % 12, program=33) for i in range(6)]
        notes += [Note(0.5, 1.2, 60 + number, program=0)]
        write_song(folder / f"song {number}.wav", notes, 2.0)
    return folder


def one_song_checkpoint(path: Path) -> Path:
    """A network that writes the same tokens in every window, those of a piano, a bass and a drum whose notes
    repeat with the windows; the piano's sound over the seams."""
    experiment = Experiment(
        exp_id="one-song",
        task="mc13_fsingle",
        event_length=48,
        audio=AudioConfig(codec="logspec", segment_samples=8000, hop_length=300),
        model=ModelConfig(
            "perceiver-tf",
            pre_encoder=PreEncoderConfig(type="strided", out_channels=8, time_stride=2),
            pre_decoder_type="linear",
            encoder=PerceiverTFConfig(
                num_latents=2,
                d_latent=16,
                d_model=16,
                qk_channels=16,
                v_channels=16,
                num_heads=2,
                num_blocks=1,
                num_local_layers=1,
                num_temporal_layers=1,
            ),
            decoder=T5DecoderConfig(d_model=128, num_layers=1, num_heads=2, d_kv=8),
        ),
    )
    tokenizer = NoteTokenizer.from_experiment(experiment)
    song = []
    for start in (0.0, 0.5, 1.0):
        song += [
            Note(start + 0.4, start + 0.6, 60, program=0),
            Note(start + 0.1, start + 0.3, 40, program=33),
            Note(start + 0.2, start + 0.21, 38, program=128, is_drum=True),
        ]
    tokens = tokenizer.encode(tokenizer.target_notes(song), num_windows=2)[1, 0]
    tokens = tokens[: list(tokens).index(tokenizer.eos_id) + 1]
    torch.manual_seed(3)
    model = build_from(experiment, tokenizer).eval()
    decoder = model.decoder
    with torch.no_grad():
        decoder.embed.weight.zero_()
        for name, parameter in decoder.layers.named_parameters():
            if name.endswith((".o.weight", ".wo.weight")):
                parameter.zero_()
        # Nothing but the position reaches the head, whose matrix gives each its token.
        states = decoder.hidden(torch.zeros(1, len(tokens), dtype=torch.int64), torch.zeros(1, 1, 128))[0]
        wanted = torch.nn.functional.one_hot(torch.as_tensor(tokens), tokenizer.vocab_size).float()
        decoder.lm_head.weight.copy_((torch.linalg.pinv(states, rtol=1e-4) @ wanted).T)
    content: dict[str, Any] = description(experiment, "")
    content |= {"state_dict": {f"model.{name}": value for name, value in model.state_dict().items()}}
    torch.save(content | {"global_step": 1, "epoch": 0}, path)
    return path


def test_transcribe_folder(songs: Path, tmp_path: Path) -> None:
    checkpoint, folder = one_song_checkpoint(tmp_path / "one.ckpt"), tmp_path / "two songs"
    (folder / "below").mkdir(parents=True)
    for name, place in (("song 0", folder), ("song 1", folder / "below")):
        for ending in (".wav", ".mid"):
            (place / f"{name}{ending}").write_bytes((songs / f"{name}{ending}").read_bytes())
    (folder / "broken.wav").write_bytes(b"RIFF")
    out = tmp_path / "out"
    done = run(tmp_path, "examples/transcribe_folder.py", str(checkpoint), str(folder), str(out))
    assert done.returncode == 1, done.stderr
    assert "broken.wav" in done.stderr
    assert "mean onset_f of 2 songs" in done.stdout
    with (out / "scores.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["song"] for row in rows} == {"song 0.wav", str(Path("below") / "song 1.wav")}
    assert all(0 <= float(row["onset_f"]) <= 1 for row in rows)
    assert len(read_midi(out / "below" / "song 1.mid")) == 12


def test_own_task(songs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert prepare(["folder", str(songs), "--name", "mysongs"]) == 0
    small = ["-it", "2", "-vit", "2", "--threads", "1", "-bsz", "2", "2", "-wb", "disabled"]
    done = run(
        tmp_path, "examples/own_task.py", "train", "bass", "--recipe", "quickstart", "-d", "mysongs", *small
    )
    assert done.returncode == 0, done.stderr
    last = tmp_path / "logs" / "ymt3" / "bass" / "checkpoints" / "last.ckpt"
    assert json.loads(torch.load(last, weights_only=True)["experiment"])["task"] == "bass_alone"
    song = str(songs / "song 0.wav")
    done = run(
        tmp_path, "examples/own_task.py", "predict", "bass@last.ckpt", song, "-o", str(tmp_path / "out")
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("*.mid"))
    unknown = run(tmp_path, "src/predict.py", "bass@last.ckpt", song)
    assert unknown.returncode == 2
    assert "bass_alone" in unknown.stderr


@pytest.mark.skipif(not HAS_ONNX, reason="the packages of amt[onnx] are not installed")
def test_transcribe_onnx(songs: Path, tmp_path: Path) -> None:
    checkpoint = one_song_checkpoint(tmp_path / "one.ckpt")
    done = run(tmp_path, "src/export.py", str(checkpoint), str(tmp_path / "graphs"), "--format", "onnx")
    assert done.returncode == 0, done.stderr
    song = songs / "song 0.wav"
    done = run(tmp_path, "examples/transcribe_onnx.py", str(tmp_path / "graphs"), str(song))
    assert done.returncode == 0, done.stderr
    found = [tuple(map(float, row)) for row in list(csv.reader(done.stdout.splitlines()))[1:]]
    expected = load_transcriber(checkpoint, device="cpu").transcribe(song).notes
    rows = [(n.onset, n.offset, float(n.pitch), 128.0 if n.is_drum else float(n.program)) for n in expected]
    assert len(rows) == 12
    assert {row[2:] for row in rows} == {(60.0, 0.0), (40.0, 32.0), (38.0, 128.0)}
    np.testing.assert_allclose(found, sorted(rows), atol=1e-3)


def test_the_onnx_example_needs_onnxruntime_and_numpy_alone() -> None:
    import ast

    tree = ast.parse((EXAMPLES / "transcribe_onnx.py").read_text(encoding="utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}
