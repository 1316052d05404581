"""Folders of files: nothing is overwritten, lost, done twice or half written."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from amt.inference import DecodingChoices, batch_workers, run_batch, run_predict
from amt.inference import batch as batch_module
from amt.inference.batch_index import INDEX_NAME, BatchIndex, batch_facts
from amt.inference.batch_workers import Work, run_jobs
from amt.inference.files import atomic_path, output_stems, remove_unfinished
from amt.inference.planning import Job, plan_jobs
from amt.notes import read_midi


def sound(path: Path, seconds: float = 0.7, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, int(seconds * 16000))
    soundfile.write(path, noise, 16000)
    return path


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def report(out: Path) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return whole


LIVELY = DecodingChoices(constrain=True)
"""Choices by which the checkpoint ``lively`` writes notes."""
BOOKS = {INDEX_NAME, "report.json", "report.csv"}


@pytest.fixture
def songs(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    for seed, name in enumerate(("song.wav", "song.flac", "a/x.wav", "b/x.wav", "b/deep/y.wav")):
        sound(root / name, 0.4 + 0.3 * seed, seed)
    return root


@pytest.fixture
def transcribed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the files that each run had to do."""
    runs: list[list[str]] = []

    def counted(work: Work, jobs: list[Job]) -> Iterator[Any]:
        runs.append([job.audio.name for job in jobs])
        yield from run_jobs(work, jobs)

    monkeypatch.setattr(batch_module, "run_jobs", counted)
    return runs


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that need not import everything first."""
    plain = multiprocessing.get_context("fork")
    monkeypatch.setattr(batch_workers.multiprocessing, "get_context", lambda _: plain)


def test_a_folder_is_mirrored_reported_and_equals_predict(
    songs: Path, log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (songs / "broken.wav").write_text("no sound")
    (songs / "notes.txt").write_text("no sound either, and not called so")
    out = tmp_path / "out"
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "formats": ("mid", "json")}
    assert run_batch("lively", [songs], out, **given) == 1
    stems = {"song.wav", "song.flac", "a/x", "b/x", "b/deep/y"}
    assert names(out) == BOOKS | {f"{stem}.{ending}" for stem in stems for ending in ("mid", "json")}
    said = capsys.readouterr()
    assert "5 of 6 files transcribed, 1 could not be: see" in said.out
    assert "times real time" in said.out
    assert "broken.wav: not transcribed: cannot be read as audio" in said.err
    told = report(out)
    assert told["counts"] == {"transcribed": 5, "earlier": 0, "failed": 1, "waiting": 0}
    assert len(told["checkpoint"]) == 64
    assert told["options"]["format"] == ["json", "mid"]
    by_name = {Path(row["file"]).name: row for row in told["files"]}
    assert "cannot be read as audio" in by_name["broken.wav"]["reason"]
    assert by_name["y.wav"]["outputs"] == ["b/deep/y.mid", "b/deep/y.json"]
    assert by_name["y.wav"]["notes"] == len(read_midi(out / "b/deep/y.mid"))
    with (out / "report.csv").open(newline="", encoding="utf-8") as file:
        assert [row["status"] for row in csv.DictReader(file)].count("transcribed") == 5
    alone = tmp_path / "alone"
    assert run_predict("lively", [songs], out=alone, **given) == 1
    assert sum(row["notes"] for row in told["files"]) > 5
    assert names(alone) == names(out) - BOOKS
    for name in names(alone):
        assert (alone / name).read_bytes() == (out / name).read_bytes()


def test_what_is_finished_is_not_done_again(
    songs: Path, log_dir: Path, tmp_path: Path, transcribed: list[list[str]], capsys: Any
) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        assert run_batch("tiny", [songs], out, log_dir=log_dir) == 0
    assert len(transcribed) == 1
    assert "5 of 5 files were finished before" in capsys.readouterr().out
    assert report(out)["counts"] == {"transcribed": 0, "earlier": 5, "failed": 0, "waiting": 0}
    (out / "a/x.mid").unlink()
    (out / "b/x.mid").write_bytes(b"cut")
    sound(songs / "b/deep/y.wav", 0.5, 99)
    assert run_batch("tiny", [songs], out, log_dir=log_dir) == 0
    assert [sorted(run) for run in transcribed[1:]] == [["x.wav", "x.wav", "y.wav"]]
    assert (out / "b/x.mid").read_bytes().startswith(b"MThd")
    assert run_batch("tiny", [songs], out, log_dir=log_dir, again=True) == 0
    assert len(transcribed[2]) == 5


def test_names_stay_when_files_join(songs: Path, log_dir: Path, tmp_path: Path) -> None:
    (songs / "song.flac").unlink()
    out = tmp_path / "out"
    assert run_batch("tiny", [songs], out, log_dir=log_dir) == 0
    before = (out / "song.mid").read_bytes()
    sound(songs / "song.flac", 2.0, 5)
    sound(songs / "report.wav", 0.3, 6)
    assert run_batch("tiny", [songs], out, log_dir=log_dir, formats=("mid",)) == 0
    assert {"song.mid", "song.flac.mid", "report.wav.mid"} <= names(out)
    assert (out / "song.mid").read_bytes() == before


def test_another_checkpoint_or_options_are_refused_unless_again(
    songs: Path, log_dir: Path, tmp_path: Path, transcribed: list[list[str]]
) -> None:
    out = tmp_path / "out"
    run_batch("tiny", [songs], out, log_dir=log_dir)
    before = names(out)
    with pytest.raises(ValueError, match=r"made otherwise \(format mid, now json\): --again"):
        run_batch("tiny", [songs], out, log_dir=log_dir, formats=("json",))
    with pytest.raises(ValueError, match=r"min_note_ms 0\.0, now 5\.0"):
        run_batch("tiny", [songs], out, log_dir=log_dir, choices=DecodingChoices(min_note_ms=5.0))
    # How many windows are decoded together changes nothing.
    assert run_batch("tiny", [songs], out, log_dir=log_dir, choices=DecodingChoices(batch_size=2)) == 0
    other = tmp_path / "other.ckpt"
    content = (log_dir / "ymt3/tiny/checkpoints/last.ckpt").read_bytes()
    other.write_bytes(content)
    assert run_batch(str(other), [songs], out) == 0, "the bytes count, not the name"
    import torch

    changed = torch.load(other, weights_only=True)
    torch.save(changed | {"global_step": 8}, other)
    with pytest.raises(ValueError, match=r"checkpoint [0-9a-f]{12}\.\.\., now [0-9a-f]{12}\.\.\."):
        run_batch(str(other), [songs], out)
    assert names(out) == before
    assert len(transcribed) == 1
    assert run_batch(str(other), [songs], out, again=True, formats=("json",)) == 0
    assert len(transcribed[1]) == 5


def test_several_processes_give_the_same(songs: Path, log_dir: Path, tmp_path: Path) -> None:
    (songs / "broken.wav").write_text("no sound")
    given: dict[str, Any] = {"log_dir": log_dir, "choices": LIVELY, "devices": ["cpu"]}
    assert run_batch("lively", [songs], tmp_path / "one", **given) == 1
    assert run_batch("lively", [songs], tmp_path / "two", processes=2, **given) == 1
    assert names(tmp_path / "one") == names(tmp_path / "two")
    for name in names(tmp_path / "one") - BOOKS:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert report(tmp_path / "one")["files"] == report(tmp_path / "two")["files"]


def test_mistakes(songs: Path, log_dir: Path, tmp_path: Path, forked: None) -> None:
    out = tmp_path / "out"
    for change, words in (
        ({"processes": 0}, "--processes must be at least 1"),
        ({"formats": ("midi",)}, "unknown output format 'midi'"),
        ({"inputs": [tmp_path / "gone"]}, "gone does not exist"),
        ({"out": songs / "song.wav"}, "is a file"),
        ({"devices": ["gpu"]}, "unknown device 'gpu'"),
        ({"devices": ["gpu"], "processes": 2}, "unknown device 'gpu'"),
        ({"spec": "tin"}, "no run 'tin'"),
    ):
        given: dict[str, Any] = {"spec": "tiny", "inputs": [songs], "out": out, "log_dir": log_dir}
        with pytest.raises(ValueError, match=words):
            run_batch(**(given | change))
    (out / INDEX_NAME).write_text("no index\n")
    with pytest.raises(ValueError, match="cannot be read"):
        run_batch("tiny", [songs], out, log_dir=log_dir)
    facts = batch_facts(log_dir / "ymt3/tiny/checkpoints/last.ckpt", DecodingChoices(), ("mid",))
    with (
        BatchIndex(out, facts, again=True),
        pytest.raises(ValueError, match="another process is transcribing"),
    ):
        run_batch("tiny", [songs], out, log_dir=log_dir)


def test_an_index_that_was_cut_off_goes_on(
    songs: Path, log_dir: Path, tmp_path: Path, transcribed: Any
) -> None:
    out = tmp_path / "out"
    run_batch("tiny", [songs], out, log_dir=log_dir)
    whole = (out / INDEX_NAME).read_bytes()
    for length, left in ((len(whole) - 5, 1), (10, 5), (0, 5)):
        (out / INDEX_NAME).write_bytes(whole[:length])
        assert run_batch("tiny", [songs], out, log_dir=log_dir) == 0
        assert len(transcribed[-1]) == left
        assert (out / INDEX_NAME).read_bytes().count(b"\n") == 6


def test_interrupt_leaves_whole_files_and_a_report(
    songs: Path, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    (out / "a").mkdir(parents=True)
    (out / "a" / ".123.x.mid").write_text("left by a process that was killed")
    (out / "a" / ".123.of somebody else.mid").write_text("not ours")

    def interrupted(work: Work, jobs: list[Job]) -> Iterator[Any]:
        for number, outcome in enumerate(run_jobs(work, jobs)):
            if number == 2:
                raise KeyboardInterrupt
            yield outcome

    monkeypatch.setattr(batch_module, "run_jobs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_batch("tiny", [songs], out, log_dir=log_dir)
    counts = report(out)["counts"]
    assert (counts["transcribed"], counts["waiting"]) == (2, 3)
    assert "a/.123.x.mid" not in names(out)
    assert "a/.123.of somebody else.mid" in names(out)
    monkeypatch.undo()
    assert run_batch("tiny", [songs], out, log_dir=log_dir) == 0
    assert report(out)["counts"]["earlier"] == 2


def test_outputs_are_not_inputs(songs: Path, log_dir: Path) -> None:
    """Neither in a folder below, nor beside the inputs."""
    for out in (songs / "out", songs):
        for _ in range(2):
            assert run_batch("tiny", [songs], out, log_dir=log_dir, formats=("wav",)) == 0
        files = [Path(row["file"]).name for row in report(out)["files"]]
        assert sorted(files)[:2] == ["song.flac", "song.wav"] or out == songs
        assert not [name for name in files if "transcribed" in name]
    assert {"song.wav_transcribed.wav", "a/x.wav"} <= names(songs)


def test_files_given_twice_are_one(songs: Path) -> None:
    jobs = plan_jobs([songs / "a", songs, songs / "song.wav"], Path("out"))
    assert len(jobs) == 5
    assert jobs[0].stem == Path("out/x")


def test_kept_and_reserved_names() -> None:
    inputs = [Path("i/song.wav"), Path("i/song.mp3"), Path("i/report.wav"), Path("i/song.parts/Bass.wav")]
    folders = [Path("o"), Path("o"), Path("o"), Path("o/song.parts")]
    kept = {Path("i/song.mp3"): Path("o/song.mp3"), Path("gone.wav"): Path("o/song.wav")}
    stems = output_stems(inputs, folders, [""] * 4, kept=kept, reserved=[Path("o/report")])
    assert stems == [
        Path("o/song.wav (2)"),  # plain it would hide the folder of other outputs, and song.wav is taken
        Path("o/song.mp3"),
        Path("o/report.wav"),
        Path("o/song.parts/Bass"),
    ]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "song.parts"
    for content in ("old", "new"):
        with atomic_path(target) as temporary:
            temporary.mkdir()
            (temporary / content).touch()
    assert names(tmp_path) == {"song.parts/new"}
    leftover = tmp_path / ".77.song.parts"
    leftover.mkdir()
    (leftover / "half").touch()
    remove_unfinished([target])
    assert names(tmp_path) == {"song.parts/new"}


def dies_of_deadly(plain: Any) -> Any:
    """A ``transcribe_jobs`` whose process is killed by a file called ``deadly``."""

    def transcribe_jobs(transcriber: Any, jobs: Iterator[Job], *rest: Any) -> Iterator[Any]:
        def checked() -> Iterator[Job]:
            for job in jobs:
                if "deadly" in job.audio.name:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield job

        return plain(transcriber, checked(), *rest)

    return transcribe_jobs


def test_a_file_that_kills_its_process_is_named_and_the_others_are_done(
    songs: Path, log_dir: Path, tmp_path: Path, forked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound(songs / "deadly.wav")
    monkeypatch.setattr(batch_workers, "transcribe_jobs", dies_of_deadly(batch_workers.transcribe_jobs))
    out = tmp_path / "out"
    assert run_batch("tiny", [songs], out, log_dir=log_dir, devices=["cpu", "cpu"]) == 1
    by_name = {Path(row["file"]).name: row for row in report(out)["files"]}
    assert by_name["deadly.wav"]["reason"] == "a process that read it ended (signal 9), twice"
    assert report(out)["counts"] == {"transcribed": 5, "earlier": 0, "failed": 1, "waiting": 0}


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cpu"]])
def test_the_report_says_what_is_odd_about_a_file(
    songs: Path, log_dir: Path, tmp_path: Path, forked: None, devices: list[str], capfd: Any
) -> None:
    soundfile.write(tmp_path / "song.mp3", np.tile(soundfile.read(songs / "song.wav")[0], 6), 16000)
    content = (tmp_path / "song.mp3").read_bytes()
    (songs / "cut.mp3").write_bytes(content[: len(content) // 2])
    out = tmp_path / "out"
    for status in ("transcribed", "earlier"):
        assert run_batch("tiny", [songs], out, log_dir=log_dir, devices=devices) == 0
        by_name = {Path(row["file"]).name: row for row in report(out)["files"]}
        (remark,) = by_name["cut.mp3"]["remarks"]
        assert remark.startswith("it ends after ")
        assert by_name["cut.mp3"]["status"] == status
        assert all(row["remarks"] == [] for name, row in by_name.items() if name != "cut.mp3")
    with (out / "report.csv").open(newline="", encoding="utf-8") as file:
        assert {row["remarks"] for row in csv.DictReader(file)} == {"", remark}
