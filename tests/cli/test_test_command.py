"""``test.py``: a checkpoint, or somebody else's MIDI files, scored on the sets of a data preset."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mir_eval
import numpy as np
import pytest
import torch

import amt
from amt.cli import test as command
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.data.store import SongStore
from amt.inference import untrained_transcriber
from amt.notes import Note, array_to_notes, read_midi, write_midi
from amt.reports.plan import TestPlan
from script_loading import load_tiny


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``data é`` with the store ``sines`` and ``logs`` with two untrained runs: ``tiny`` finds many
    notes, the tie sections of ``ties`` name notes that never began."""
    tiny = load_tiny()
    root = tmp_path_factory.mktemp("home")
    tiny.make_store(root / "data é", songs=(("train", 1), ("validation", 2), ("test", 3)))
    for name, seed in (("tiny", 3), ("ties", 10)):
        transcriber = untrained_transcriber(tiny.experiment(), seed=seed, device="cpu")
        folder = root / "logs" / "ymt3" / name / "checkpoints"
        folder.mkdir(parents=True)
        state = {f"model.{name}": value for name, value in transcriber.model.state_dict().items()}
        content = {"amt_format": 1, "experiment": transcriber.experiment.to_json(), "state_dict": state}
        torch.save(content | {"global_step": 7}, folder / "last.ckpt")
    return root


@pytest.fixture(autouse=True)
def _environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(home / "data é"))
    monkeypatch.setenv("AMT_LOG_DIR", str(home / "logs"))


def store(home: Path) -> SongStore:
    return SongStore.open(home / "data é" / "sines")


def write_estimates(home: Path, folder: Path, split: str = "test") -> Path:
    folder.mkdir(parents=True)
    songs = store(home)
    for number in range(songs.splits[split]):
        song = songs.song(split, number)
        write_midi(array_to_notes(song.notes), folder / f"{song.song_id}.mid")
    return folder


def result(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return loaded


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["tiny@last.ckpt", "-d", "sines", "-o", str(tmp_path / "out"), "--constrain", "--device", "cpu"]
    assert command.main([*line, "--report-songs", "1", "-w", "true"]) == 0
    out = tmp_path / "out"
    midi = {f"midi/sines/test{n}.mid" for n in range(3)}
    assert names(out) == {"result.json", "songs.csv", "report.html", *midi}
    plain = result(out)
    assert plain["name"] == "tiny@last.ckpt"
    assert plain["system"]["kind"] == "checkpoint"
    assert (plain["system"]["step"], plain["system"]["experiment"]) == (7, "tiny")
    assert plain["conventions"]["system"]["constrain"] is True
    assert sum(song["num_estimated"] for song in plain["songs"]) > 0
    assert [song["num_windows"] for song in plain["songs"]] == [4, 4, 4]
    for number, song in enumerate(plain["songs"]):
        sides = [array_to_notes(store(home).song("test", number).notes), read_midi(out / song["midi"])]
        arguments = []
        for notes in sides:
            arguments.append(np.array([[note.onset, note.offset] for note in notes]).reshape(-1, 2))
            arguments.append(mir_eval.util.midi_to_hz(np.array([float(note.pitch) for note in notes])))
        expected = mir_eval.transcription.precision_recall_f1_overlap(*arguments, offset_ratio=None)[2]
        assert song["scores"]["onset_f"] == pytest.approx(expected, abs=1e-9)
    said = capsys.readouterr().out
    assert "sines (split test of sines): 3 songs" in said
    assert "onset F1" in said


def test_the_default_folder_is_that_of_the_run(home: Path) -> None:
    for split, name in (("test", "last"), ("validation", "last-validation")):
        line = ["tiny", "--split", split, "-w", "false", "--report-songs", "0", "--max-songs", "1"]
        assert command.main(line) == 0, "data sets of the checkpoint"
        out = home / "logs" / "ymt3" / "tiny" / "test" / name
        assert names(out) == {"result.json", "songs.csv", "report.html"}
        assert result(out)["sets"][0]["split"] == split
        assert result(out)["conventions"]["presets"] == ["sines"]


def test_other_data_have_a_folder_of_their_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second set does not replace the score of the first; the checkpoint's own have the plain name."""
    more = [home / "data é" / name for name in ("other", "third")]
    for path in more:
        path.symlink_to(home / "data é" / "sines")
    try:
        base = ["tiny@last.ckpt", "-w", "false", "--report-songs", "0", "--max-songs", "1"]
        for words, folder in (
            (["-d", "sines"], "last"),
            (["-d", "other"], "last-other"),
            (["-d", "third", "other"], "last-other+third"),
            (["-d", "other", "third"], "last-other+third"),
            (["-d", "other", "--split", "validation"], "last-other-validation"),
        ):
            assert command.main([*base, *words]) == 0
            found = result(home / "logs" / "ymt3" / "tiny" / "test" / folder)["conventions"]
            assert found["presets"] == [word for word in words[1:] if word.isalpha() and word != "validation"]
    finally:
        for path in more:
            path.unlink()


def test_the_names_of_folders() -> None:
    many = [f"a set number {number}" for number in range(9)]

    def folder(file: str, *presets: str, split: str = "test") -> str:
        plan = TestPlan(split=split, presets=presets)
        return command._folder_beside(Path(file), plan, ("own", "second")).as_posix()

    run = "logs/p/exp/checkpoints/last.ckpt"
    assert folder(run) == folder(run, "second", "own") == "logs/p/exp/test/last"
    assert folder(run, "own") == "logs/p/exp/test/last-own"
    assert folder("quickstart/model.ckpt") == "quickstart/model_test"
    assert folder("quickstart/model.ckpt", "b", "a", split="train") == "quickstart/model_test-a+b-train"
    long = folder(run, *many)
    assert re.fullmatch(r"logs/p/exp/test/last-a set number 0\+8-more-[0-9a-f]{8}", long)
    assert long == folder(run, *reversed(many)) != folder(run, *many[:8], "another one")


def test_a_score_that_is_replaced_is_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    line = ["tiny", "-d", "sines", "--max-songs", "1", "--report-songs", "0", "-w", "false", "-o", str(out)]
    assert command.main(line) == 0
    assert "replaces" not in capsys.readouterr().err
    os.utime(out / "result.json", (86400.0 * 365,) * 2)
    assert command.main(line) == 0
    (note,) = [text for text in capsys.readouterr().err.splitlines() if "replaces" in text]
    assert note.startswith("note: replaces the score of 19")
    assert note.endswith(f" in {out / 'result.json'}"), "by the same command"
    assert command.main([*line, "-t", "0.1", "--constrain"]) == 0
    said = capsys.readouterr().err
    assert "result.json, which has onset tolerance 0.05, now 0.1; system: constrain False, now True" in said
    assert "(-o FOLDER keeps both)" in said
    folder = write_estimates(home, tmp_path / "theirs")
    line = ["-d", "sines", "--estimates", str(folder), "-tk", "mc13_fsingle_vocal", "-o", str(out)]
    assert command.main(line) == 0
    assert "which has file last.ckpt, now not set; experiment tiny, now not set; " in capsys.readouterr().err
    (out / "result.json").write_text("{}")
    assert command.main(line) == 0
    assert capsys.readouterr().err.count("replaces the score of") == 1


@pytest.mark.parametrize("spec", ["tiny", ""])
def test_labels_without_a_note_of_the_task(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    """A store that was prepared without the program of its voices: said, and no success."""
    load_tiny().make_store(tmp_path / "data", songs=(("test", 2),), program=0)
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    line = ["-d", "sines", "-o", str(tmp_path / "out"), "--report-songs", "0"]
    if spec:
        line = [spec, *line]
    else:
        line += ["-tk", "mc13_fsingle_vocal", "--estimates", str(write_estimates(home, tmp_path / "theirs"))]
    assert command.main(line) == 1
    [item] = result(tmp_path / "out")["sets"]
    assert item["num_notes"] == 0
    assert item["remark"].startswith("nothing to score in sines: mc13_fsingle_vocal transcribes none of the ")
    assert "(0 Acoustic Grand Piano: " in item["remark"]
    assert "if they are Singing Voice, prepare the data again with --program 100" in item["remark"]
    out = capsys.readouterr().out
    assert item["remark"] in out
    assert "mean over songs" not in out, "no table of zeros"
    assert "pooled" not in out
    assert item["remark"] in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_options_reach_the_decoder(home: Path, tmp_path: Path) -> None:
    base = ["tiny", "-d", "sines", "--max-songs", "1", "--report-songs", "0"]
    assert command.main([*base, "-o", str(tmp_path / "plain"), "--constrain"]) == 0
    line = ["--constrain", "--overlap", "0.5", "--batch-size", "3"]
    assert command.main([*base, "-o", str(tmp_path / "other"), *line]) == 0
    plain, other = result(tmp_path / "plain"), result(tmp_path / "other")
    assert plain["songs"][0]["num_windows"] == 4
    assert other["songs"][0]["num_windows"] == 7
    decoding = other["conventions"]["system"]
    assert (decoding["constrain"], decoding["overlap"], decoding["batch_size"]) == (True, 0.5, 3)
    files = [(tmp_path / name / "midi/sines/test0.mid").read_bytes() for name in ("plain", "other")]
    assert files[0] != files[1]


def test_start_from_ties_changes_the_notes(home: Path, tmp_path: Path) -> None:
    base = ["ties", "-d", "sines", "--constrain", "--report-songs", "0"]
    assert command.main([*base, "-o", str(tmp_path / "without")]) == 0
    assert command.main([*base, "-o", str(tmp_path / "with"), "--start-from-ties"]) == 0
    counts = [
        sum(song["num_estimated"] for song in result(tmp_path / name)["songs"])
        for name in ("without", "with")
    ]
    assert counts[0] < counts[1], "notes that only a tie section knows"


def test_estimates_that_are_the_reference_are_perfect(home: Path, tmp_path: Path) -> None:
    folder = write_estimates(home, tmp_path / "theirs")
    line = ["-d", "sines", "--estimates", str(folder), "-tk", "mc13_fsingle_vocal"]
    assert command.main(line) == 0
    out = tmp_path / "theirs_test"
    plain = result(out)
    for key in ("onset_f", "offset_f", "multi_f", "onset_f_Singing Voice", "melody_rpa_Singing Voice"):
        metric = plain["metrics"][f"test/(sines){key}"]
        assert metric["value"] == metric["low"] == metric["high"] == 1.0
    assert plain["system"] == {"kind": "estimates", "folder": "theirs"}
    assert plain["songs"][0]["midi"] == "../theirs/test0.mid"
    assert (out / plain["songs"][0]["midi"]).is_file()
    assert not (out / "midi").exists()


def test_estimates_by_set_and_of_one_program(home: Path, tmp_path: Path) -> None:
    """Our own MIDI folder is read as well; a system without instruments is told its own."""
    folder = tmp_path / "theirs"
    inner = write_estimates(home, folder / "sines")
    for path in inner.iterdir():
        write_midi([note._replace(program=0) for note in read_midi(path)], path)
    line = ["tiny", "--estimates", str(folder), "-o", str(tmp_path / "out")]
    assert command.main(line) == 0
    assert result(tmp_path / "out")["metrics"]["test/(sines)onset_f"]["value"] == 0.0, "no voice"
    assert result(tmp_path / "out")["conventions"]["task"] == "mc13_fsingle_vocal"
    remark = result(tmp_path / "out")["sets"][0]["remark"]
    assert remark.startswith("mc13_fsingle_vocal transcribes none of the ")
    assert "of the estimates of sines (0 Acoustic Grand Piano: " in remark
    assert remark.endswith("; --estimates-program N says what their pitched notes are")
    assert command.main([*line, "--estimates-program", "100"]) == 0
    assert result(tmp_path / "out")["metrics"]["test/(sines)onset_f"]["value"] == 1.0
    assert result(tmp_path / "out")["sets"][0]["remark"] == ""


def test_broken_and_missing_estimates_are_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_estimates(home, tmp_path / "theirs")
    (folder / "test0.mid").write_bytes(b"this is no MIDI file")
    (folder / "test2.mid").unlink()
    line = [
        "-d",
        "sines",
        "--estimates",
        str(folder),
        "-tk",
        "mc13_fsingle_vocal",
        "-o",
        str(tmp_path / "out"),
    ]
    assert command.main(line) == 1
    said = capsys.readouterr().out
    assert f"test0: not scored: {folder / 'test0.mid'}" in said
    assert f"test2: not scored: no test2.mid in {folder}" in said
    plain = result(tmp_path / "out")
    assert [failure["song_id"] for failure in plain["sets"][0]["failures"]] == ["test0", "test2"]
    assert [song["song_id"] for song in plain["songs"]] == ["test1"]
    (folder / "test1.mid").rename(folder / "other name.mid")
    (folder / "test0.mid").unlink()
    assert command.main(line) == 2
    assert f"test0: no test0.mid in {folder}" in capsys.readouterr().err


def test_a_broken_song_of_the_store_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_tiny().make_store(tmp_path, songs=(("test", 3),))
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    (tmp_path / "sines" / "songs" / "test0" / "notes.npy").write_bytes(b"")
    (tmp_path / "sines" / "songs" / "test1" / "stems.npy").write_bytes(b"")
    assert command.main(["tiny", "-o", str(tmp_path / "out"), "--report-songs", "0"]) == 1
    failures = result(tmp_path / "out")["sets"][0]["failures"]
    assert [failure["song_id"] for failure in failures] == ["test0", "test1"]
    assert "notes.npy" in failures[0]["reason"]
    assert "stems.npy" in failures[1]["reason"]
    assert "test1: not scored" in capsys.readouterr().out


def test_compare_two_results_and_a_checkpoint(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_estimates(home, tmp_path / "theirs")
    assert command.main(["tiny", "--estimates", str(folder), "-o", str(tmp_path / "perfect")]) == 0
    (tmp_path / "theirs" / "test1.mid").unlink()
    write_midi([Note(0.1, 0.2, 30, 100)], tmp_path / "theirs" / "test1.mid")
    assert command.main(["tiny", "--estimates", str(folder), "-o", str(tmp_path / "worse")]) == 0
    capsys.readouterr()
    files = [str(tmp_path / name / "result.json") for name in ("worse", "perfect")]
    assert command.main(["--compare", *files, "-o", str(tmp_path / "c")]) == 0
    found = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert found["num_songs"] == 3
    assert found["differences"]["test/(sines)onset_f"]["difference"] == pytest.approx(1 / 3)
    assert found["differences"]["test/(sines)onset_f"]["share_better"] > 0.5
    out = capsys.readouterr().out
    assert "+0.3333" in out
    assert "replaced" not in out
    assert command.main(["--compare", *files, "-o", str(tmp_path / "c")]) == 0
    assert "comparison.json, .csv (that of before is replaced)" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.chdir(tmp_path)
    assert command.main(["--compare", *files]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == str(Path("comparison") / "comparison.json, .csv")
    assert said[-3].startswith("3 songs are too few to tell which is better in onset F1: +0.333")
    line = ["--compare", "tiny", files[1], "-d", "sines", "-o", str(tmp_path / "d"), "--report-songs", "0"]
    assert command.main(line) == 0
    assert capsys.readouterr().out.endswith("comparison.json, .csv, a/\n")
    assert result(tmp_path / "d" / "a")["name"] == "tiny"
    found = json.loads((tmp_path / "d" / "comparison.json").read_text())
    assert (found["a"], found["b"]) == ("tiny", "theirs")
    assert found["differences"]["test/macro_onset_f"]["difference"] > 0.5


def test_flags_of_train_are_compared_with_the_checkpoint(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["tiny", "-d", "sines", "-o", str(tmp_path), "--max-songs", "1", "--report-songs", "0"]
    assert command.main([*line, "-tk", "mc13_fsingle_vocal", "-nl", "2", "-lr", "1e-3", "-it", "5"]) == 0
    assert capsys.readouterr().err == "flags of training, ignored here: -lr -it\n"
    assert command.main([*line, "-nl", "26"]) == 2
    assert "-nl 26, the checkpoint has 2" in capsys.readouterr().err


def test_every_option_of_train_is_accepted() -> None:
    known = {name for option in (*command.TEST_OPTIONS, *command._TRAIN_OPTIONS) for name in option.names}
    assert {name for option in OPTIONS for name in option.names} <= known


def test_the_defaults_shown_are_those_of_the_plan() -> None:
    plan, shown = TestPlan(), command.TEST_DEFAULTS
    assert shown["--split"] == plan.split
    assert shown["--write-model-output"] == str(plan.write_midi).lower()
    assert float(shown["--onset-tolerance"]) == plan.onset_tolerance
    assert int(shown["--max-songs"]) == plan.max_songs
    assert int(shown["--report-songs"]) == plan.num_shown


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ([], "test.py exp@last.ckpt -d quickstart"),
        (["tiny", "song.wav"], "data sets stand behind -d"),
        (["tiny", "-d", "sine"], "did you mean 'sines'"),
        (["tiny", "-d", "slakh"], "amt-prepare import-yourmt3 FOLDER --only slakh"),
        (["tiny", "-d", "sines", "--split", "hard"], "has no split hard"),
        (["tin", "-d", "sines"], "no run 'tin'"),
        (["tiny", "-d", "sines", "-o", "adamw"], "folder of the outputs"),
        (["tiny", "-d", "sines", "-t", "-1"], "--onset-tolerance"),
        (["tiny", "-d", "sines", "-epv", "gm_pls"], "did you mean 'gm_plus'"),
        (["tiny", "-d", "sines", "-os", "true"], "use test.py --octave-shift"),
        (["tiny", "--compare", "a.json", "b.json"], "stands alone"),
        (["--compare", "a.json", "b.json"], "a.json: the file is missing"),
        (["--compare", "tiny", "b.json", "-d", "sines"], "b.json: the file is missing"),
        (["--compare", "tiny", "tin", "-d", "sines"], "no run 'tin'"),
        (["--compare", "a.json"], "expects 2 values"),
        (["--estimates", "theirs"], "needs -d"),
        (["-d", "sines", "--estimates", "nowhere"], "no such folder"),
        (["tiny", "--estimates-program", "3"], "does nothing without --estimates"),
        (["tiny", "--estimates", ".", "--estimates-program", "128"], "must be 0 to 127"),
        (["tiny", "--estimates", ".", "--subtask", "singing-only"], "has no sub-tasks"),
    ],
)
def test_mistakes_are_one_sentence(
    argv: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(argv) == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_the_entry_file_runs_from_any_folder(home: Path, tmp_path: Path) -> None:
    environ = os.environ | {"AMT_DATA_HOME": str(home / "data é"), "AMT_LOG_DIR": str(home / "logs")}
    line = ["tiny", "-d", "sines", "--max-songs", "1", "--report-songs", "1", "-o", "out", "--pitch-class"]
    entry = str(Path(amt.__file__).with_name("test.py"))
    done = subprocess.run(
        [sys.executable, entry, *line], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 song, " in done.stdout
    assert "test/(sines)onset_f_Singing Voice_pc" in result(tmp_path / "out")["metrics"]


def test_the_commands_of_the_page_are_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    lines = [
        line.partition("#")[0].split() for line in page.splitlines() if line.startswith("python test.py")
    ]
    assert len(lines) == 8
    for _, _, *words in lines:
        parsed = parse(words, (*command.TEST_OPTIONS, *command._TRAIN_OPTIONS), command._UNAVAILABLE)
        command._check_usage(parsed)
    shown = set(re.findall(r"`(--?[a-z][a-z-]*)", page.partition("## Testing a model")[2]))
    assert shown <= {
        name for option in (*command.TEST_OPTIONS, *command._TRAIN_OPTIONS) for name in option.names
    }
