"""Songs on their way through a server: waiting, transcribed one at a time, kept for a while."""

from __future__ import annotations

import secrets
import shutil
import sys
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.names import counted
from ..inference.files import printable
from ..inference.predict import faults, reason_of
from ..inference.progress_bar import real_time
from ..notes.note import DRUM_PROGRAM, Note
from .limits import Limits
from .refusal import Refusal

if TYPE_CHECKING:
    from ..inference.transcriber import Listener, Progress, Transcription

_RETRY_SECONDS = 30


class State(StrEnum):
    """Where a song is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Decoding:
    """What a client may say about decoding; the rest is as the server was started."""

    overlap: float | None = None
    subtask: str | None = None


@dataclass(eq=False)
class Job:
    """One song. Changed under the lock of its :class:`JobQueue` only."""

    id: str
    """Nobody can guess it: who knows it may see the song and its notes."""
    name: str
    """Of the file, as the client called it: to be shown, never to be opened."""
    folder: Path
    """Holds the song and what is made of it, and nothing else."""
    decoding: Decoding
    duration: float = 0.0
    """Seconds, by the header of the file."""
    state: State = State.WAITING
    version: int = 0
    """Counts the changes."""
    notes: list[Note] = field(default_factory=list)
    """In the order in which they became final."""
    counts: Counter[int] = field(default_factory=Counter)
    """Notes of each program, 128 for drums."""
    windows_done: int = 0
    num_windows: int = 0
    song: Transcription | None = None
    """The result."""
    error: str = ""
    remarks: tuple[str, ...] = ()
    """What the user should know about the file."""
    cancelled: bool = False
    results: dict[str, Path] = field(default_factory=dict)
    """Files made of the result, see :mod:`.results`."""

    @property
    def sound(self) -> Path:
        """The file that was sent."""
        return self.folder / "sound"

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.state not in (State.WAITING, State.RUNNING)


Transcribe = Callable[[Job, "Progress", "Listener"], "Transcription"]
"""Gives the notes of a job's sound, see :meth:`~..inference.transcriber.SongTranscriber.transcribe`."""


class _Stopped(Exception):
    """The transcription at hand is not to go on; the text says why, and is empty when it was cancelled."""


class JobQueue:
    """Takes songs, transcribes them one after the other in a thread of its own, and keeps the last ones.

    Args:
        transcribe: does the work.
        limits: see :class:`~.limits.Limits`.
        folder: for the files of the jobs, which has no other use.
        instruments: name and colour of a program (128: drums), for :meth:`describe`.
        say: called with a line for each song that is over.
    """

    def __init__(
        self,
        transcribe: Transcribe,
        limits: Limits,
        folder: Path,
        instruments: Callable[[int], dict[str, Any]],
        say: Callable[[str], None] = print,
    ) -> None:
        self._transcribe, self._limits, self._folder = transcribe, limits, folder
        self._instruments, self._say = instruments, say
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._num_reserved = 0
        self._closed = False
        self._changed = threading.Condition()
        """Guards everything, and is notified at every change of any job."""
        self._worker = threading.Thread(target=self._work, name="transcriber", daemon=True)
        self._worker.start()

    @contextmanager
    def reserve(self, name: str, decoding: Decoding) -> Iterator[Job]:
        """A place for a song that is about to be sent; its folder goes when the block raises.

        The job is waiting when the block ends. Raises :class:`~.refusal.Refusal` when all places are taken.
        """
        with self._changed:
            if len(self._waiting) + self._num_reserved >= self._limits.max_waiting:
                raise Refusal(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{self._limits.max_waiting} songs are waiting already; try again later",
                    retry_after=_RETRY_SECONDS,
                )
            self._num_reserved += 1
        job = Job(secrets.token_urlsafe(18), name, Path(), decoding)
        job.folder = self._folder / job.id
        try:
            job.folder.mkdir(mode=0o700)
            yield job
        except BaseException:
            shutil.rmtree(job.folder, ignore_errors=True)
            with self._changed:
                self._num_reserved -= 1
            raise
        with self._changed:
            self._num_reserved -= 1
            self._jobs[job.id] = job
            self._waiting.append(job)
            self._change(job)

    def get(self, job_id: str) -> Job:
        """The job of that id. Raises :class:`~.refusal.Refusal` when there is none (any more)."""
        with self._changed:
            if job_id not in self._jobs:
                raise Refusal(HTTPStatus.NOT_FOUND, "there is no such song, or it is not kept any more")
            return self._jobs[job_id]

    def wait(self, job: Job, version: int, num_notes: int, seconds: float) -> tuple[int, list[Note], bool]:
        """Wait until a job has another version, or ``seconds`` are over.

        Returns:
            Its version, its notes after the first ``num_notes``, and whether it is over.
        """
        with self._changed:
            self._changed.wait_for(lambda: job.version != version, seconds)
            return job.version, job.notes[num_notes:], job.is_over

    def remove(self, job: Job) -> None:
        """Stop the work on a job, and forget it with its files."""
        with self._changed:
            self._jobs.pop(job.id, None)
            job.cancelled = True
            if job.state is State.WAITING:
                self._waiting.remove(job)
            if not job.is_over:
                job.state = State.CANCELLED
            self._change(job)
            for behind in self._waiting:
                self._change(behind)
        shutil.rmtree(job.folder, ignore_errors=True)

    def describe(self, job: Job) -> dict[str, Any]:
        """What a client may know of a job, as plain types."""
        with self._changed:
            song = job.song
            return {
                "id": job.id,
                "name": job.name,
                "state": str(job.state),
                "ahead": self._ahead(job),
                "duration": job.duration,
                "windows": {"done": job.windows_done, "total": job.num_windows},
                "notes": len(job.notes),
                "instruments": [
                    {"program": program, **self._instruments(program), "notes": count}
                    for program, count in sorted(job.counts.items())
                ],
                "overlap": job.decoding.overlap,
                "subtask": job.decoding.subtask,
                "elapsed": None if song is None else song.elapsed,
                "malformed": None if song is None else sum(song.errors.values()),
                "remarks": list(job.remarks),
                "error": job.error or None,
            }

    def _ahead(self, job: Job) -> int:
        """Songs before this one."""
        if job.state is not State.WAITING or job not in self._waiting:
            return 0
        running = any(other.state is State.RUNNING for other in self._jobs.values())
        return self._waiting.index(job) + running

    def close(self, seconds: float = 5.0) -> bool:
        """Stop, the song at hand too; waits up to ``seconds`` for it, and says whether it has stopped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._waiting.clear()
            for job in self._jobs.values():
                job.cancelled = True
                if not job.is_over:
                    job.state = State.CANCELLED
                self._change(job)
        self._worker.join(seconds)
        return not self._worker.is_alive()

    def _change(self, job: Job) -> None:
        job.version += 1
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._waiting.popleft()
                job.state = State.RUNNING
                for other in (job, *self._waiting):
                    self._change(other)
            try:
                self._run(job)
            except Exception as error:  # one song that shows a fault of ours does not end the service
                traceback.print_exception(error, file=sys.stderr)
                self._end(job, State.FAILED, error="this song hit an error of amt, which the server printed")
            self._forget_old()

    def _run(self, job: Job) -> None:
        deadline = time.monotonic() + 60.0 * self._limits.max_work_minutes

        def go_on() -> None:
            if job.cancelled:
                raise _Stopped("")
            if time.monotonic() > deadline:
                raise _Stopped(f"it took longer than {self._limits.max_work_minutes:g} minutes")

        def progress(done: int, total: int) -> None:
            with self._changed:
                go_on()
                job.windows_done, job.num_windows = done, total
                self._change(job)

        def listen(notes: list[Note]) -> None:
            with self._changed:
                go_on()
                job.notes += notes
                job.counts.update(program_of(note) for note in notes)
                self._change(job)

        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                song = self._transcribe(job, progress, listen)
        except (_Stopped, ValueError, OSError) as error:
            self._end(job, State.FAILED, error=reason_of(error, job.sound))
            return
        remarks = dict.fromkeys(str(item.message).removeprefix(f"{job.sound}: ") for item in caught)
        self._end(job, State.DONE, song=song, remarks=tuple(remarks))

    def _end(
        self,
        job: Job,
        state: State,
        *,
        song: Transcription | None = None,
        error: str = "",
        remarks: tuple[str, ...] = (),
    ) -> None:
        """A song is over, unless it was cancelled in the meantime."""
        with self._changed:
            if job.cancelled:
                said = "cancelled"
                shutil.rmtree(job.folder, ignore_errors=True)
            else:
                job.state, job.song, job.error, job.remarks = state, song, error, remarks
                self._change(job)
                said = _summary(song) if song is not None else f"not transcribed: {error}"
        self._say(printable(f"{job.name}: {said}"))

    def _forget_old(self) -> None:
        with self._changed:
            over = [job for job in self._jobs.values() if job.is_over]
        for job in over[: max(0, len(over) - self._limits.keep)]:
            self.remove(job)


def program_of(note: Note) -> int:
    """The program of a note, 128 for drums."""
    return DRUM_PROGRAM if note.is_drum else note.program


def _summary(song: Transcription) -> str:
    rate = real_time(song.duration, song.elapsed)
    return f"{counted(len(song.notes), 'note')} in {song.duration:.1f} s, {rate}{faults(song)}"
