"""Predicting files: what is written where, and what the user is told."""

import csv
import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.inference import DecodingChoices, run_predict
from amt.inference.files import atomic_path, output_stems
from amt.inference.planning import plan_jobs
from amt.notes import Note, read_midi, write_midi


def sound(path: Path, seconds: float = 1.2, rate: int = 22050) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    time = np.arange(int(seconds * rate)) / rate
    soundfile.write(path, 0.2 * np.sin(2 * np.pi * 440 * time), rate)
    return path


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_formats(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    song = sound(tmp_path / "in" / "two  spaces é.wav")
    formats = ("mid", "png", "wav", "json", "csv")
    assert run_predict("tiny@last.ckpt", [song], out=tmp_path / "out", log_dir=log_dir, formats=formats) == 0
    out = tmp_path / "out"
    assert names(out) == {f"two  spaces é.{ending}" for ending in formats}
    listed = json.loads((out / "two  spaces é.json").read_text())
    assert listed["duration"] == pytest.approx(1.2, abs=1e-3)
    assert len(read_midi(out / "two  spaces é.mid")) == len(listed["notes"])
    with (out / "two  spaces é.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(listed["notes"])
    assert (out / "two  spaces é.png").read_bytes().startswith(b"\x89PNG")
    with wave.open(str(out / "two  spaces é.wav")) as rendered:
        assert rendered.getnframes() == 19200
    said = capsys.readouterr().out
    assert "weights loaded, 0 missing" in said
    assert f"{song}: {len(listed['notes'])} notes in 1.2 s" in said
    assert "times real time" in said


def test_beside_the_input_and_again(log_dir: Path, tmp_path: Path) -> None:
    song = sound(tmp_path / "song.wav")
    for _ in range(2):
        assert run_predict("tiny", [song], log_dir=log_dir) == 0
        assert names(tmp_path) == {"song.wav", "song_transcribed.mid"}


def test_reference_beside_the_audio_is_used_and_kept(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    song = sound(tmp_path / "song.wav")
    write_midi([Note(0.1, 0.6, 69, 0)], tmp_path / "song.mid")
    before = (tmp_path / "song.mid").read_bytes()
    for out in (None, tmp_path, tmp_path / "elsewhere"):
        assert run_predict("tiny", [song], out=out, log_dir=log_dir, formats=("mid",)) == 0
        assert "against 1 reference note " in capsys.readouterr().out
    assert (tmp_path / "song.mid").read_bytes() == before
    assert names(tmp_path) == {"song.wav", "song.mid", "song_transcribed.mid", "elsewhere/song.mid"}


def test_given_reference_in_the_output_folder_is_kept(tmp_path: Path) -> None:
    song = sound(tmp_path / "in" / "song.wav")
    write_midi([Note(0.1, 0.6, 69, 0)], tmp_path / "song.mid")
    (job,) = plan_jobs([song], tmp_path, tmp_path / "song.mid")
    assert job.stem == tmp_path / "song_transcribed"


def test_folder_with_names_that_clash(log_dir: Path, tmp_path: Path) -> None:
    root = tmp_path / "in"
    for name in ("song.wav", "song.flac", "a/song.wav", "v1.2 mix.wav", "UPPER.WAV"):
        sound(root / name, 0.3)
    (root / "notes.txt").write_text("no audio")
    sound(root / ".hidden" / "x.wav", 0.3)
    (root / "mp3 named.mp3").write_bytes((root / "song.flac").read_bytes())
    assert run_predict("tiny", [root], out=tmp_path / "out", log_dir=log_dir, formats=("mid",)) == 0
    assert names(tmp_path / "out") == {
        "song.wav.mid",
        "song.flac.mid",
        "a/song.mid",
        "v1.2 mix.mid",
        "UPPER.mid",
        "mp3 named.mid",
    }


def test_equal_names_of_several_folders_are_numbered() -> None:
    inputs = [Path("a/x.wav"), Path("b/x.wav"), Path("b/X.wav"), Path("c/y.wav")]
    stems = output_stems(inputs, [Path("o")] * 4, [""] * 4)
    assert stems == [Path("o/x.wav"), Path("o/x.wav (2)"), Path("o/X.wav (3)"), Path("o/y")]


def test_one_broken_file_does_not_stop_the_others(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_text("this is no sound")
    good = sound(tmp_path / "good.wav")
    assert run_predict("tiny", [bad, good], out=tmp_path / "out", log_dir=log_dir, formats=("mid",)) == 1
    said = capsys.readouterr()
    assert "bad.wav: not transcribed" in said.err
    assert "1 of 2 files transcribed" in said.out
    assert names(tmp_path / "out") == {"good.mid"}


def test_a_file_without_a_sample_has_no_notes_and_is_said(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    song = sound(tmp_path / "empty.wav", 0)
    assert run_predict("tiny", [song], out=tmp_path / "out", log_dir=log_dir) == 0
    said = capsys.readouterr()
    assert f"{song}: holds no sound (0 samples), so there are no notes -> " in said.out
    assert " 0.0 s" not in said.out
    assert names(tmp_path / "out") == {"empty.mid"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": "tin@last.ckpt"}, "no run 'tin'"),
        ({"spec": "tiny@other.ckpt"}, "no checkpoint 'other.ckpt'"),
        ({"formats": ("midi",)}, "unknown output format 'midi'"),
        ({"formats": ()}, "no output format"),
        ({"inputs": [Path("gone.wav")]}, "gone.wav does not exist"),
        ({"inputs": []}, "no audio file"),
        ({"reference": Path("gone.mid")}, "gone.mid does not exist"),
        ({"device": "gpu"}, "unknown device"),
        ({"choices": DecodingChoices(overlap=2.0)}, "--overlap must lie in 0 to 0.9"),
    ],
)
def test_mistakes_end_with_status_2(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict, words: str
) -> None:
    good = {"spec": "tiny", "inputs": [sound(tmp_path / "a.wav", 0.1)], "log_dir": log_dir}
    assert run_predict(**(good | change)) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert names(tmp_path) == {"a.wav"}


def test_reference_needs_one_song_and_out_a_folder(tmp_path: Path) -> None:
    songs = [sound(tmp_path / name, 0.1) for name in ("a.wav", "b.wav")]
    with pytest.raises(ValueError, match="belongs to one song"):
        plan_jobs(songs, None, tmp_path / "a.wav")
    with pytest.raises(ValueError, match="is a file"):
        plan_jobs(songs, tmp_path / "a.wav")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no audio"):
        plan_jobs([tmp_path / "empty"], None)


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.mid"
    target.write_text("old")

    def interrupted() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == {"a.mid"}
    assert target.read_text() == "old"


def test_works_without_torchaudio_io_ffmpeg_and_gpu(log_dir: Path, tmp_path: Path) -> None:
    """Prediction in a fresh process where torchaudio and torchcodec cannot be imported."""
    song = sound(tmp_path / "song.wav")
    code = (
        "import sys; sys.modules['torchaudio'] = None; sys.modules['torchcodec'] = None\n"
        "from pathlib import Path; from amt.inference import run_predict\n"
        f"sys.exit(run_predict('tiny', [Path({str(song)!r})], out=Path({str(tmp_path / 'out')!r}), "
        f"log_dir=Path({str(log_dir)!r})))"
    )
    env = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "out") == {"song.mid"}


def test_folder_names_broken_audio_and_leaves_out_own_outputs(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound(tmp_path / "song.wav")
    sound(tmp_path / "song_transcribed.wav")
    (tmp_path / "broken.wav").write_text("no audio")
    assert run_predict("tiny", [tmp_path], log_dir=log_dir, formats=("mid",)) == 1
    said = capsys.readouterr()
    assert "broken.wav: not transcribed" in said.err
    assert "1 of 2 files transcribed" in said.out
    assert not (tmp_path / "song_transcribed_transcribed.mid").exists()


def test_unreadable_reference(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    song = sound(tmp_path / "song.wav")
    bad = tmp_path / "song.MID"
    bad.write_bytes(b"MThd")
    out = tmp_path / "out"
    assert run_predict("tiny", [song], out=out, log_dir=log_dir, formats=("mid",)) == 0
    assert "note: no reference" in capsys.readouterr().err
    assert names(out) == {"song.mid"}
    assert run_predict("tiny", [song], reference=bad, log_dir=log_dir, formats=("mid",)) == 2
    assert "song.MID" in capsys.readouterr().err


def test_output_folder_that_cannot_be_made(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    song = sound(tmp_path / "song.wav")
    assert run_predict("tiny", [song], out=song / "below", log_dir=log_dir) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_name_as_long_as_names_can_be_stops_nobody(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x" * 251, "é" * 125, "song"):
        sound(tmp_path / "in" / f"{name}.wav")
    assert run_predict("tiny", [tmp_path / "in"], out=tmp_path / "out", log_dir=log_dir) == 0
    assert {len(path.stem) for path in (tmp_path / "out").iterdir()} == {251, 125, 4}
    assert run_predict("tiny", [tmp_path / "in"], log_dir=log_dir) == 1, "no room for the ending"
    said = capsys.readouterr().err
    assert said.count("File name too long") == 2
    assert (tmp_path / "in" / "song_transcribed.mid").is_file()
    with pytest.raises(ValueError, match=r"x+ does not exist"):
        plan_jobs([Path("x" * 5000)], None)


def test_a_link_that_leads_nowhere_is_named(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound(tmp_path / "in" / "song.wav")
    (tmp_path / "in" / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    (tmp_path / "in" / "loop.wav").symlink_to("loop.wav")
    (tmp_path / "in" / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    (tmp_path / "in" / "folder").symlink_to(".")
    assert run_predict("tiny", [tmp_path / "in"], out=tmp_path / "in" / "out", log_dir=log_dir) == 1
    said = capsys.readouterr()
    assert "1 of 3 files transcribed" in said.out
    assert said.err.count("not transcribed: there is no such audio file") == 2


def test_standard_input_is_no_file() -> None:
    with pytest.raises(ValueError, match="standard input, which is not read"):
        plan_jobs([Path("-")], None)
