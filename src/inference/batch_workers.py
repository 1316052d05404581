"""Many files through one network, or through several in processes of their own.

A process asks for the next file when it has room for more windows, so files spread by themselves, whatever
their length and the speed of the devices. One that dies is replaced, and the files it had are tried again one
by one: the file that kills a process is found and named, and nothing else is lost.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.names import counted
from .batch_index import Outcome, output_size
from .choices import DecodingChoices
from .files import printable
from .outputs import write_outputs
from .planning import Job
from .predict import describe, reason_of

if TYPE_CHECKING:
    from .transcriber import SongTranscriber

_FLUSH, _STOP = "flush", "stop"
"""Answers in place of a job: finish what you have, then ask again; finish and end."""


@dataclass(frozen=True)
class Work:
    """What each process is told."""

    checkpoint: Path
    choices: DecodingChoices
    formats: tuple[str, ...]
    devices: tuple[str, ...]
    """One for each process; a single one is used in this process."""


def transcribe_jobs(
    transcriber: SongTranscriber, jobs: Iterable[Job], formats: Sequence[str], said: list[str]
) -> Iterator[Outcome]:
    """Transcribe and write files whose windows share batches; in the order in which they are complete.

    Jobs are taken when their turn comes. A broken file is an outcome, not an exception. Of the warnings in
    ``said`` each file takes its own.
    """
    taken: list[Job] = []

    def songs() -> Iterator[Path]:
        for job in jobs:
            taken.append(job)
            yield job.audio

    for number, song in transcriber.transcribe_songs(songs()):
        job = taken[number]
        remarks = _take_remarks(said, job.audio)
        if isinstance(song, Exception):
            yield Outcome(job.audio, reason=reason_of(song, job.audio))
            continue
        try:
            paths = write_outputs(job.stem, formats, song, title=printable(job.audio.name))
            sizes = {path: output_size(path) for path in paths}
        except (ValueError, OSError) as error:
            yield Outcome(job.audio, reason=reason_of(error, job.audio))
            continue
        yield Outcome(
            job.audio, len(song.notes), song.duration, sum(song.errors.values()), sizes, "", remarks
        )


def _take_remarks(said: list[str], audio: Path) -> tuple[str, ...]:
    """The warnings that begin with the name of a file, without it."""
    before = f"{audio}: "
    own = tuple(text.removeprefix(before) for text in said if text.startswith(before))
    said[:] = [text for text in said if not text.startswith(before)]
    return own


def run_jobs(work: Work, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """The outcomes of all jobs, as they come.

    Raises:
        ValueError: the checkpoint cannot be loaded or a device does not work.
    """
    if len(work.devices) > 1:
        yield from _run_processes(work, jobs)
        return
    from .transcriber import load_transcriber

    transcriber = load_transcriber(work.checkpoint, work.choices, device=work.devices[0])
    print(describe(transcriber), flush=True)
    with _warnings_as_notes() as said:
        yield from transcribe_jobs(transcriber, jobs, work.formats, said)


@contextmanager
def _warnings_as_notes() -> Iterator[list[str]]:
    """Each warning about a file is a line on standard error, and in the list."""
    said: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        said.append(str(message))
        print(printable(f"note: {message}"), file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield said


def work_in_process(connection: Connection, work: Work, device: str) -> None:
    """What a process does: say what was loaded, then ask for jobs and give outcomes until told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    # The parent is gone when its end of the pipe is.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), connection:
        import torch

        from .transcriber import load_transcriber

        torch.set_num_threads(max(1, torch.get_num_threads() // len(work.devices)))
        try:
            transcriber = load_transcriber(work.checkpoint, work.choices, device=device)
        except (ValueError, OSError) as error:
            connection.send(("refused", str(error)))
            return
        connection.send(("ready", describe(transcriber)))
        answer: object = None

        def jobs() -> Iterator[Job]:
            nonlocal answer
            while True:
                connection.send(("next", None))
                answer = connection.recv()
                if not isinstance(answer, Job):
                    return
                yield answer

        with _warnings_as_notes() as said:
            while answer != _STOP:
                for outcome in transcribe_jobs(transcriber, jobs(), work.formats, said):
                    connection.send(("outcome", outcome))


@dataclass
class _Worker:
    """A process as its parent sees it."""

    device: str
    process: BaseProcess
    connection: Connection
    jobs: dict[Path, Job] = field(default_factory=dict)
    """Those it has."""
    suspect: bool = False
    """Whether the job it has was in a process that died."""
    stopping: bool = False


def _start(work: Work, device: str) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work_in_process, args=(theirs, work, device), daemon=True)
    process.start()
    theirs.close()
    return _Worker(device, process, ours)


def _run_processes(work: Work, jobs: Sequence[Job]) -> Iterator[Outcome]:
    waiting, suspects = deque(jobs), deque[Job]()
    workers = [_start(work, device) for device in work.devices[: max(1, len(jobs))]]
    told = False
    try:
        while workers:
            ready = wait([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    workers.remove(worker)
                    yield from _bury(worker, suspects)
                    if waiting or (suspects and not workers):
                        workers.append(_start(work, worker.device))
                    continue
                if kind == "refused":
                    raise ValueError(value)
                if kind == "ready":
                    if not told:
                        print(f"{value}; {counted(len(work.devices), 'process', 'processes')}", flush=True)
                    told = True
                elif kind == "next":
                    _answer(worker, waiting, suspects)
                else:
                    del worker.jobs[value.audio]
                    yield value
    finally:
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in workers:
            worker.process.join()


def _answer(worker: _Worker, waiting: deque[Job], suspects: deque[Job]) -> None:
    """Give a worker that asks its next job. A suspect is never together with other jobs."""
    answer: Job | str = _STOP
    if worker.suspect and worker.jobs:
        answer = _FLUSH
    elif waiting:
        answer, worker.suspect = waiting.popleft(), False
    elif suspects and worker.jobs:
        answer = _FLUSH
    elif suspects:
        answer, worker.suspect = suspects.popleft(), True
    if isinstance(answer, Job):
        worker.jobs[answer.audio] = answer
    worker.stopping = answer == _STOP
    with suppress(BrokenPipeError):  # that it died is seen when reading
        worker.connection.send(answer)


def _bury(worker: _Worker, suspects: deque[Job]) -> Iterator[Outcome]:
    """A worker has ended. What it had is tried again alone; one that was alone is what killed it."""
    worker.process.join()
    worker.connection.close()
    code = worker.process.exitcode or 0
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    if not worker.jobs:
        if not worker.stopping:
            raise ValueError(f"a process on {worker.device} ended before it could begin ({how})")
        return
    if worker.suspect:
        for audio in worker.jobs:
            yield Outcome(audio, reason=f"a process that read it ended ({how}), twice")
        return
    suspects.extend(worker.jobs.values())
