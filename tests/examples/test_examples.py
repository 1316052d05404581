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
from amt.config import Experiment, T5DecoderConfig
from amt.config.presets import combine_presets
from amt.inference import load_transcriber
from amt.model import build_from
from amt.model.checkpoint_content import description
from amt.notes import Note, read_midi, write_midi
from amt.tokenizer import NoteTokenizer
from script_loading import load_samples, load_script
from small_networks import small_experiment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RATE = 16000
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """``python <command>``, a path of the checkout first, in the folder ``home``."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AMT_", "WANDB_"))}
    environment |= {
        "AMT_DATA_HOME": str(home / "data"),
        "AMT_LOG_DIR": str(home / "logs"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, str(ROOT / command[0]), *command[1:]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
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
    decoder_sizes = T5DecoderConfig(d_model=128, num_layers=1, num_heads=2, d_kv=8)
    experiment = small_experiment(decoder_sizes, exp_id="one-song")
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


def test_transcribe_folder_takes_the_program_of_a_melody(songs: Path, tmp_path: Path) -> None:
    """The MIDI says piano and the task is voices: nothing is scored until the program is given."""
    sizes = T5DecoderConfig(d_model=16, num_layers=1, num_heads=2, d_kv=8)
    experiment = small_experiment(sizes, exp_id="voices", task="mc13_fsingle_vocal")
    model = build_from(experiment, NoteTokenizer.from_experiment(experiment))
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    checkpoint = tmp_path / "voices.ckpt"
    torch.save({**description(experiment, ""), "state_dict": state, "global_step": 1, "epoch": 0}, checkpoint)
    folder = tmp_path / "songs"
    folder.mkdir()
    (folder / "a.wav").write_bytes((songs / "song 0.wav").read_bytes())
    write_midi([Note(0.1, 0.6, 69, 0), Note(0.8, 1.2, 71, 0)], folder / "a.mid")
    line = ("examples/transcribe_folder.py", str(checkpoint), str(folder), str(tmp_path / "out"))
    done = run(tmp_path, *line)
    assert done.returncode == 0, done.stderr
    assert "note: nothing to score: mc13_fsingle_vocal transcribes none of the 2 notes" in done.stderr
    assert "; PROGRAM says what they are (100 Singing Voice, 101" in done.stderr
    assert "onset_f" not in done.stdout
    done = run(tmp_path, *line, "100")
    assert (done.returncode, "note:" in done.stderr) == (0, False), done.stderr
    assert "mean onset_f of 1 songs" in done.stdout


SMALL = ["-it", "2", "-vit", "2", "--threads", "1", "-bsz", "2", "2", "-wb", "disabled"]


TINY_STAGE = ["--rl-max-tokens", "16", "--set", "trainer.log_every_n_steps=1"]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def usage(name: str) -> str:
    """The text at the head of an example."""
    return (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]


def published_file(path: Path) -> Path:
    """A small network of random weights in a file as YourMT3+ writes it."""
    samples = load_samples()
    experiment = samples.small("yptf_single")
    made: Path = samples.lightning_file(path, samples.random_state(experiment), experiment)
    return made


@pytest.mark.slow
def test_fine_tune(songs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert prepare(["folder", str(songs), "--name", "known", "--seed", "3"]) == 0
    published = published_file(tmp_path / "published.ckpt")
    command = ("examples/fine_tune.py", "tuned", str(published), str(songs), "known", *SMALL)
    done = run(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert "WARM START" in done.stdout
    last = tmp_path / "logs" / "ymt3" / "tuned" / "checkpoints" / "last.ckpt"
    trained = torch.load(last, weights_only=True)
    experiment = Experiment.from_json(trained["experiment"])
    assert experiment.data.presets == ("tuned_mix",)
    assert experiment.model.encoder.d_latent == 16, "the network is that of the published file"
    start = torch.load(tmp_path / "tuned.start.ckpt", weights_only=True)["state_dict"]
    name = "model.decoder.lm_head.weight"
    distance = float((trained["state_dict"][name] - start[name]).abs().max())
    assert 0 < distance < 1e-3, "two steps of 1e-5 away from where it started"
    # Both the new songs and the old ones are trained on and validated.
    metrics = table(last.parents[1] / "metrics.csv")
    assert {f"validation/({name})onset_f" for name in ("tuned_songs", "known")} <= set(metrics[-1])
    again = run(tmp_path, *command)
    assert again.returncode == 0, again.stderr
    assert "finished, already at step 2" in again.stdout
    compare = "--compare tuned.start.ckpt tuned@last.ckpt -d known tuned_songs"
    assert f"python src/test.py {compare}".replace("known", "OLD").replace("tuned", "NAME") in usage(
        "fine_tune"
    )
    compared = run(tmp_path, "src/test.py", *compare.split(), "-o", "compared")
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "compared" / "comparison.json").is_file()


def test_the_old_data_have_their_share() -> None:
    """Of a mixture its members keep their shares among each other; old and new add up to 1."""
    module = load_script(EXAMPLES / "fine_tune.py")
    old = combine_presets(["all_cross_final"])
    mix = module.mixture("named_so", "songs", old)
    assert mix.presets == ("songs", *old.presets)
    assert mix.weights[0] == pytest.approx(1 - module.OLD_SHARE)
    assert sum(mix.weights) == pytest.approx(1)
    assert mix.weights[1] / mix.weights[2] == pytest.approx(old.weights[0] / old.weights[1])


def test_reinforce(songs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert prepare(["folder", str(songs), "--name", "mysongs"]) == 0
    start = one_song_checkpoint(tmp_path / "converged.ckpt")
    command = ("examples/reinforce.py", "better", str(start), "mysongs", *SMALL, *TINY_STAGE)
    done = run(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "logs" / "ymt3" / "better"
    rows = table(folder / "metrics.csv")
    scores = [row for row in rows if row.get("validation/macro_onset_f")]
    assert [int(row["step"]) for row in scores] == [0, 2], "before the stage and after it"
    rewards = [float(row["rl_reward"]) for row in rows if row.get("rl_reward")]
    assert rewards
    assert f"rl_reward: {rewards[0]:.3f} at first, {rewards[-1]:.3f} in the end" in done.stdout
    trained = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    stage = Experiment.from_json(trained["experiment"]).rl
    assert (stage.enabled, stage.reward, stage.baseline, stage.num_samples) == (True, "onset_f", "group", 4)


def test_own_task(songs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert prepare(["folder", str(songs), "--name", "mysongs"]) == 0
    done = run(
        tmp_path, "examples/own_task.py", "train", "bass", "--recipe", "quickstart", "-d", "mysongs", *SMALL
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


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("transcribe_folder.py none.ckpt SONGS out", "none.ckpt does not exist"),
        ("reinforce.py better nobody@last.ckpt mysongs", "nobody"),
        ("fine_tune.py tuned published.ckpt SONGS no_such_data", "no_such_data"),
        ("own_task.py train bass --recipe quickstart -d no_such_data", "no_such_data"),
        ("own_task.py dance", "train|predict|test|export"),
    ],
)
def test_without_data_they_say_so_in_a_sentence(songs: Path, tmp_path: Path, command: str, part: str) -> None:
    name, *words = command.split()
    done = run(tmp_path, f"examples/{name}", *(str(songs) if word == "SONGS" else word for word in words))
    assert done.returncode in (1, 2)
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is begun"


@pytest.mark.skipif(not HAS_ONNX, reason="the packages of amt[onnx] are not installed")
def test_what_the_onnx_example_does_not_read(songs: Path, tmp_path: Path) -> None:
    song, folder = songs / "song 0.wav", tmp_path / "graphs"
    assert "graphs holds no model.json" in onnx_error(tmp_path, folder, song)
    folder.mkdir()
    settings = {"files": {"encoder": "encoder.pt2"}}
    (folder / "model.json").write_text(json.dumps(settings), encoding="utf-8")
    assert "none.wav is not there" in onnx_error(tmp_path, folder, tmp_path / "none.wav")
    assert "amt-export --format onnx" in onnx_error(tmp_path, folder, song)


def onnx_error(home: Path, folder: Path, song: Path) -> str:
    done = run(home, "examples/transcribe_onnx.py", str(folder), str(song))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_onnx_example_needs_onnxruntime_and_numpy_alone() -> None:
    import ast

    tree = ast.parse((EXAMPLES / "transcribe_onnx.py").read_text(encoding="utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}
