"""Standard output, one file per instrument, and names as other people give them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from amt.inference import DecodingChoices, SongTranscriber, Transcription, run_batch, run_predict
from amt.inference.outputs import WRITERS, write_outputs
from amt.inference.progress_bar import ProgressBar, real_time
from amt.notes import Note, read_midi

CASES = Path(__file__).parents[1] / "data" / "audio"
LIVELY = DecodingChoices(constrain=True)


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 52000), 16000)
    return path


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "parts"])
def test_standard_output_has_the_bytes_of_the_file(
    song: Path, log_dir: Path, tmp_path: Path, name: str, capfdbinary: Any
) -> None:
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "formats": (name,)}
    assert run_predict("lively", [song], out=tmp_path / "out", **given) == 0
    capfdbinary.readouterr()
    assert run_predict("lively", [song], to_stdout=True, **given) == 0
    said = capfdbinary.readouterr()
    expected = (tmp_path / "out" / f"song.{name}").read_bytes()
    if name == "jsonl":  # a stream gives notes when they have ended, a file by onset
        assert sorted(said.out.splitlines()) == sorted(expected.splitlines())
    else:
        assert said.out == expected
    assert b"weights loaded" in said.err
    assert b"-> standard output" in said.err
    assert names(tmp_path) == {"song.wav", f"out/song.{name}"}


def test_a_stream_of_several_songs(
    song: Path, log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_text("no sound")
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "formats": ("jsonl",)}
    assert run_predict("lively", [bad, song], to_stdout=True, **given) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["file"] == "bad.wav"
    assert "cannot be read" in lines[0]["error"]
    assert lines[1] == {"file": "song.wav", "duration": 3.25}
    assert lines[-1]["file"] == "song.wav"
    assert lines[-1]["notes"] == len(lines) - 3 > 0
    assert set(lines[2]) == set(Note._fields)


def test_a_stream_flows_while_windows_finish(
    song: Path, log_dir: Path, lively: SongTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes are there before the last window is decoded."""
    from amt.inference import predict as module

    written: list[list[str]] = []
    done: list[int] = []
    show = ProgressBar.show

    def shown(self: ProgressBar, at: int, total: int, seconds: float) -> None:
        done.append(sum(len(lines) for lines in written))
        show(self, at, total, seconds)

    monkeypatch.setattr(module, "_print_lines", lambda lines: written.append(list(lines)))
    monkeypatch.setattr(ProgressBar, "show", shown)
    choices = DecodingChoices(constrain=True, batch_size=1)
    given: dict[str, Any] = {"log_dir": log_dir, "choices": choices, "formats": ("jsonl",)}
    assert run_predict("lively", [song], to_stdout=True, **given) == 0
    total = sum(len(lines) for lines in written)
    assert len(done) == 7
    assert 1 < done[3] < total - 1


@pytest.mark.parametrize(
    ("formats", "songs", "words"),
    [
        (("mid", "json"), 1, "-o - writes one format"),
        (("parts",), 1, "-o - writes one format"),
        (("json",), 2, "but there are 2; --format jsonl takes several"),
    ],
)
def test_what_standard_output_cannot_hold(
    song: Path, log_dir: Path, capsys: Any, formats: tuple[str, ...], songs: int, words: str
) -> None:
    second = song.with_name("second.wav")
    shutil.copy(song, second)
    inputs = [song, second][:songs]
    assert run_predict("tiny", inputs, to_stdout=True, log_dir=log_dir, formats=formats) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err


def test_one_midi_file_per_instrument(tmp_path: Path, tiny: SongTranscriber) -> None:
    notes = [
        Note(0, 1, 60, 0),
        Note(0, 1, 62, 0),
        Note(0, 1, 64, 33),
        Note(0.5, 0.51, 36, 128, True),
        Note(1, 2, 65, 100),
    ]
    class_names = tiny.transcribe(np.zeros(8000)).class_names
    for kept in (notes, notes[:2]):
        write_outputs(tmp_path / "a.b", ["parts"], Transcription(kept, 2.0, class_names=class_names))
        found = {path.name: [n.pitch for n in read_midi(path)] for path in (tmp_path / "a.b.parts").iterdir()}
        wanted = {"Piano.mid": [60, 62]}
        if kept is notes:
            wanted |= {"Bass.mid": [64], "Drums.mid": [36], "Singing Voice.mid": [65]}
        assert found == wanted
    assert {path.name for path in tmp_path.iterdir()} == {"a.b.parts"}


def test_cases_of_names(log_dir: Path, tmp_path: Path) -> None:
    """D47, D48: by content, whatever the ending; letters composed or not, dashes, dots; no output is lost."""
    root = tmp_path / "in"
    shutil.copytree(CASES / "names", root)
    for name in ("w13_mp3_named_wav.wav", "w15_UPPER.WAV"):
        shutil.copy(CASES / name, root / name)
    for name in (
        "-leading dash.wav",
        "no ending",
        "three.dots.in.it.wav",
        "song.wav",
        "song.mp3",
        "SONG.Wav",
    ):
        shutil.copy(CASES / "w31_audio_1s.wav", root / name)
    odd = os.fsdecode(b"latin1 \xe9.wav")
    shutil.copy(CASES / "w31_audio_1s.wav", root / odd)
    inputs = os.listdir(root)
    outputs: dict[str, set[str]] = {}
    for command, run in {"predict": run_predict, "batch": run_batch}.items():
        out = tmp_path / command
        assert run("tiny", [root], out=out, log_dir=log_dir, formats=("mid",)) == 0
        outputs[command] = {name for name in names(out) if name.endswith(".mid")}
        assert len(outputs[command]) == len(inputs)
    assert outputs["predict"] == outputs["batch"]
    # Names that differ in case only would be one file on some systems.
    assert {"song.mp3.mid", "SONG.Wav.mid", "song.wav (2).mid"} <= outputs["predict"]
    plain = {"-leading dash.mid", "no ending.mid", "three.dots.in.it.mid", "w15_UPPER.mid"}
    assert plain | {f"{odd.removesuffix('.wav')}.mid", "é_音楽_NFC.mid"} <= outputs["predict"]


def test_a_name_with_a_dash_on_the_command_line(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amt.cli.predict import main

    shutil.copy(CASES / "w31_audio_1s.wav", tmp_path / "-x.wav")
    checkpoint = str(log_dir / "ymt3/tiny/checkpoints/last.ckpt")
    monkeypatch.chdir(tmp_path)
    assert main([checkpoint, "-o", "out", "--", "-x.wav"]) == 0
    assert names(tmp_path) == {"-x.wav", "out/-x.mid"}
    assert main([checkpoint, "-x.wav"]) == 2, "without -- it is an option"


def test_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Now and then a line with the real-time factor; nothing for short work."""
    now = iter([0.0, 10.0, 40.0, 50.0, 80.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    bar = ProgressBar("song.wav", "windows")
    for done in (10, 40, 50, 60):
        bar.show(done, 60, done * 2.0)
    assert capsys.readouterr().err == "song.wav: 40 of 60 windows, 2.0 times real time\n"
    assert real_time(1000, 10) == "100 times real time"


def test_case_of_silence(log_dir: Path, tmp_path: Path) -> None:
    """F09: random weights, which end no sequence, give valid MIDI within the sound."""
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "formats": ("mid", "json")}
    assert run_predict("lively", [CASES / "w06_silence_2s.wav"], out=tmp_path, **given) == 0
    told = json.loads((tmp_path / "w06_silence_2s.json").read_text())
    notes = read_midi(tmp_path / "w06_silence_2s.mid")
    assert len(notes) == len(told["notes"]) > 0
    assert all(0 <= note.onset < note.offset <= 2.01 for note in notes)


@pytest.mark.parametrize("network", ["tiny", "lively"])
def test_cases_of_files_shorter_than_a_window(log_dir: Path, tmp_path: Path, network: str) -> None:
    """D44: no sample, one and a hundred give valid MIDI, whose notes lie within the sound."""
    files = [CASES / f"{name}.wav" for name in ("w07_no_frames", "w08_one_sample", "w08b_100_samples")]
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "formats": ("mid",)}
    assert run_predict(network, files, out=tmp_path, **given) == 0
    assert names(tmp_path) == {f"{path.stem}.mid" for path in files}
    for path in files:
        assert all(note.onset <= 0.02 for note in read_midi(tmp_path / f"{path.stem}.mid"))


@pytest.mark.slow
def test_case_of_a_long_file(log_dir: Path, tmp_path: Path) -> None:
    """D49: half an hour of silence."""
    given: dict[str, Any] = {"log_dir": log_dir, "choices": DecodingChoices(batch_size=64)}
    assert run_predict("tiny", [CASES / "w23_silence_30min.flac"], out=tmp_path, **given) == 0
    assert names(tmp_path) == {"w23_silence_30min.mid"}
