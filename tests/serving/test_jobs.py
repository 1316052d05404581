"""The queue: one song at a time, in order, stopped and forgotten as asked."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from amt.inference import Transcription
from amt.notes import Note
from amt.serving.jobs import Decoding, Job, JobQueue, State
from amt.serving.limits import Limits
from amt.serving.refusal import Refusal

SECONDS = 120.0
NOTES = [Note(0.0, 0.5, 60), Note(0.5, 0.6, 38, is_drum=True), Note(1.0, 1.5, 64, 33)]


class Band:
    """Transcribes when it is told to: each song waits for its turn to end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, job: Job, progress: Any, listener: Any) -> Transcription:
        self.begun.append(job.name)
        self.entered.release()
        listener(NOTES[:1])
        progress(1, 2)
        assert self.go.acquire(timeout=SECONDS)
        if self.error is not None:
            raise self.error
        listener(NOTES[1:])
        progress(2, 2)
        return Transcription(sorted(NOTES), 2.0, num_windows=2, elapsed=1.0, name="sound")


Make = Callable[..., JobQueue]


@pytest.fixture
def band() -> Band:
    return Band()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(band: Band, tmp_path: Path, said: list[str]) -> Iterator[Make]:
    made: list[JobQueue] = []

    def begin(**limits: Any) -> JobQueue:
        queue = JobQueue(
            band, Limits(**limits), tmp_path, lambda program: {"name": str(program)}, said.append
        )
        made.append(queue)
        return queue

    yield begin
    for queue in made:
        for _ in range(10):
            band.go.release()
        assert queue.close(SECONDS)


def add(queue: JobQueue, name: str) -> Job:
    with queue.reserve(name, Decoding()) as job:
        job.sound.write_bytes(b"sound")
    return job


def finish(queue: JobQueue, job: Job) -> None:
    version = -1
    while not job.is_over:
        version, _, _ = queue.wait(job, version, 0, SECONDS)


def test_songs_are_done_one_at_a_time_in_order(make: Make, band: Band, said: list[str]) -> None:
    queue = make()
    jobs = [add(queue, name) for name in "abc"]
    assert band.entered.acquire(timeout=SECONDS)
    assert [queue.describe(job)["ahead"] for job in jobs] == [0, 1, 2]
    assert [job.state for job in jobs] == [State.RUNNING, State.WAITING, State.WAITING]
    assert band.begun == ["a"]
    for _ in jobs:
        band.go.release()
    for job in jobs:
        finish(queue, job)
    assert band.begun == ["a", "b", "c"]
    assert said == [f"{name}: 3 notes in 2.0 s, 2.0 times real time" for name in "abc"]
    told = queue.describe(jobs[0])
    assert told["state"] == "done"
    assert told["instruments"] == [
        {"program": 0, "name": "0", "notes": 1},
        {"program": 33, "name": "33", "notes": 1},
        {"program": 128, "name": "128", "notes": 1},
    ]
    assert told["windows"] == {"done": 2, "total": 2}


def test_notes_are_there_while_it_works(make: Make, band: Band) -> None:
    queue = make()
    job = add(queue, "a")
    version, notes = -1, []
    while not queue.describe(job)["windows"]["done"]:
        version, notes, _ = queue.wait(job, version, 0, SECONDS)
    assert job.state is State.RUNNING
    assert notes == NOTES[:1]
    band.go.release()
    finish(queue, job)
    assert queue.wait(job, -1, 1, SECONDS)[1:] == (NOTES[1:], True)


def test_places_are_limited_also_for_songs_on_their_way(make: Make, band: Band, tmp_path: Path) -> None:
    queue = make(max_waiting=2)
    add(queue, "running")
    assert band.entered.acquire(timeout=SECONDS)
    add(queue, "waiting")
    with (
        queue.reserve("coming", Decoding()),
        pytest.raises(Refusal, match="2 songs are waiting") as caught,
        queue.reserve("more", Decoding()),
    ):
        raise AssertionError
    assert caught.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert caught.value.retry_after > 0


def test_a_song_that_does_not_arrive_leaves_nothing(make: Make, tmp_path: Path) -> None:
    queue = make(max_waiting=1)

    def leave(job: Job) -> None:
        job.sound.write_bytes(b"ha")
        raise ConnectionError

    for _ in range(3):
        with pytest.raises(ConnectionError), queue.reserve("half", Decoding()) as job:
            leave(job)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Refusal, match="no such song"):
        queue.get(job.id)


def test_a_waiting_song_can_be_removed(make: Make, band: Band) -> None:
    queue = make()
    first, second, third = (add(queue, name) for name in "abc")
    assert band.entered.acquire(timeout=SECONDS)
    queue.remove(second)
    assert second.state is State.CANCELLED
    assert not second.folder.exists()
    assert queue.describe(third)["ahead"] == 1
    for _ in range(2):
        band.go.release()
    finish(queue, third)
    assert band.begun == ["a", "c"]
    assert first.state is State.DONE


def test_a_running_song_can_be_removed(make: Make, band: Band, said: list[str]) -> None:
    queue = make()
    first, second = add(queue, "a"), add(queue, "b")
    assert band.entered.acquire(timeout=SECONDS)
    queue.remove(first)
    assert queue.wait(first, -1, 0, SECONDS)[2], "who follows it learns of it at once"
    band.go.release()
    band.go.release()
    finish(queue, second)
    assert first.state is State.CANCELLED
    assert first.song is None
    assert said[0] == "a: cancelled"
    assert not first.folder.exists()
    with pytest.raises(Refusal):
        queue.get(first.id)


def test_only_the_last_songs_are_kept(make: Make, band: Band) -> None:
    queue = make(keep=2)
    jobs = [add(queue, name) for name in "abcd"]
    for _ in jobs:
        band.go.release()
    finish(queue, jobs[-1])
    last = add(queue, "last")  # forgetting comes after the end that is told, and before the next song
    assert all(band.entered.acquire(timeout=SECONDS) for _ in range(5))
    assert [job.folder.exists() for job in jobs] == [False, False, True, True]
    assert queue.get(jobs[2].id) is jobs[2]
    band.go.release()
    finish(queue, last)


def test_work_has_an_end(make: Make, band: Band) -> None:
    queue = make(max_work_minutes=1e-9)
    job = add(queue, "a")
    finish(queue, job)
    assert job.state is State.FAILED
    assert "longer than 1e-09 minutes" in job.error


def test_a_broken_song_is_said_without_its_path(make: Make, band: Band, said: list[str]) -> None:
    queue = make()
    job = add(queue, "a.wav")
    assert band.entered.acquire(timeout=SECONDS)
    band.error = ValueError(f"{job.sound}: is damaged")
    band.go.release()
    finish(queue, job)
    assert queue.describe(job)["error"] == "is damaged"
    assert said == ["a.wav: not transcribed: is damaged"]


def test_a_fault_of_ours_does_not_end_the_service(
    make: Make, band: Band, capfd: pytest.CaptureFixture[str]
) -> None:
    queue = make()
    first = add(queue, "a")
    assert band.entered.acquire(timeout=SECONDS)
    band.error = RuntimeError("out of paper")
    band.go.release()
    finish(queue, first)
    assert first.state is State.FAILED
    assert "out of paper" not in first.error
    assert "out of paper" in capfd.readouterr().err
    band.error = None
    second = add(queue, "b")
    band.go.release()
    finish(queue, second)
    assert second.state is State.DONE


def test_warnings_about_a_file_are_remarks(tmp_path: Path) -> None:
    def transcribe(job: Job, progress: Any, listener: Any) -> Transcription:
        warnings.warn(f"{job.sound}: ends early", UserWarning, stacklevel=1)
        return Transcription([], 1.0)

    queue = JobQueue(transcribe, Limits(), tmp_path, lambda program: {}, lambda line: None)
    job = add(queue, "a")
    finish(queue, job)
    assert queue.describe(job)["remarks"] == ["ends early"]
    queue.close(SECONDS)


def test_closing_stops_everything(make: Make, band: Band) -> None:
    queue = make()
    first, second = add(queue, "a"), add(queue, "b")
    assert band.entered.acquire(timeout=SECONDS)
    band.go.release()
    queue.close(SECONDS)
    assert second.state is State.CANCELLED
    assert first.is_over
    assert band.begun == ["a"]


@pytest.mark.parametrize(
    ("limits", "option"),
    [
        ({"max_mb": 0}, "--max-mb"),
        ({"keep": 0}, "--keep"),
        ({"max_waiting": -1}, "--max-waiting"),
        ({"max_minutes": 0.0}, "--max-minutes"),
        ({"max_work_minutes": float("nan")}, "--max-work-minutes"),
    ],
)
def test_limits_that_mean_nothing(limits: dict[str, Any], option: str) -> None:
    with pytest.raises(ValueError, match=option):
        Limits(**limits)
