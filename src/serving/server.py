"""The server itself: what it holds, how it begins and how it ends."""

from __future__ import annotations

import errno
import signal
import socket
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..inference.colours import family_colour, instrument_family
from ..inference.piano_roll import DRUM_LANES
from ..notes.midi_write import track_name
from ..notes.note import Note
from .guard import Guard, is_loopback
from .handler import Handler
from .jobs import Decoding, Job, JobQueue
from .limits import Limits
from .refusal import Refusal
from .results import Results

if TYPE_CHECKING:
    from ..inference.transcriber import Listener, Progress, SongTranscriber, Transcription

_PAGE = Path(__file__).parent
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_MAX_CONNECTIONS = 64
_LOADING_RETRY_SECONDS = 1


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str


def page_assets() -> dict[str, Asset]:
    """The files of the page by their addresses."""
    files = {
        f"/{path.name}": Asset(path.read_bytes(), _MEDIA_TYPES[path.suffix])
        for path in sorted(_PAGE.iterdir())
        if path.suffix in _MEDIA_TYPES
    }
    return {"/": files.pop("/index.html"), **files}


class Server(ThreadingHTTPServer):
    """Listens at once; :meth:`serve_forever` answers, :meth:`close` ends it and removes its files.

    The page is there from the beginning; songs are taken once :meth:`use` has given it a model.

    Args:
        host: name or number of the address to listen at.
        port: 0 takes a free one, see :attr:`url`.
        limits: see :class:`~.limits.Limits`.
        names: further names by which browsers may reach the server.
        say: called with a line for each song that is over.

    Raises:
        ValueError: nothing can listen there.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
        names: Iterable[str] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._connections = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        own = () if is_loopback(host) else (socket.gethostname(),)
        self.guard = Guard(host, (*names, *own))
        self.assets = page_assets()
        self.limits = limits or Limits()
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise ValueError(_why_not(error, host, port)) from None
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.server_port}/"
        self._loaded: SongTranscriber | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="amt-serve-", ignore_cleanup_errors=True)
        self.results = Results()
        self.queue = JobQueue(self._transcribe, self.limits, Path(self._folder.name), self._instrument, say)

    def use(self, transcriber: SongTranscriber) -> None:
        """Take songs from now on, for this transcriber."""
        self._loaded = transcriber

    @property
    def _transcriber(self) -> SongTranscriber:
        if self._loaded is None:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the model is being loaded; try again in a moment",
                retry_after=_LOADING_RETRY_SECONDS,
            )
        return self._loaded

    def server_bind(self) -> None:
        """Bind, without asking the network what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def close(self) -> None:
        """Stop listening and transcribing, and remove every file."""
        self.server_close()
        self.queue.close()
        self._folder.cleanup()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, when there are not too many."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """What the thread of a connection does."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are gone are no errors; others are ours, and told."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def check(self, decoding: Decoding) -> SongTranscriber:
        """A transcriber that decodes so.

        Raises:
            ValueError: the model cannot do that.
            Refusal: there is no model yet.
        """
        choices = self._transcriber.choices
        if decoding.overlap is not None:
            choices = replace(choices, overlap=decoding.overlap)
        if decoding.subtask is not None:
            choices = replace(choices, subtask=decoding.subtask)
        return self._transcriber.with_choices(choices)

    def info(self) -> dict[str, Any]:
        """What a client must know of the model and the limits, as plain types.

        Raises:
            Refusal: there is no model yet.
        """
        transcriber = self._transcriber
        return {
            "version": __version__,
            "experiment": transcriber.experiment.exp_id,
            "checkpoint": transcriber.source.name if transcriber.source is not None else None,
            "task": transcriber.experiment.task,
            "device": str(transcriber.device),
            "overlap": transcriber.overlap,
            "subtask": transcriber.subtask,
            "subtasks": list(transcriber.tokenizer.task.subtasks),
            "max_bytes": self.limits.max_bytes,
            "max_seconds": self.limits.max_seconds,
            "drum_lanes": [{"name": name, "pitches": sorted(pitches)} for name, pitches in DRUM_LANES],
        }

    def _transcribe(self, job: Job, progress: Progress, listener: Listener) -> Transcription:
        return self.check(job.decoding).transcribe(job.sound, progress=progress, listener=listener)

    def _instrument(self, program: int) -> dict[str, Any]:
        family = instrument_family(Note(0.0, 0.0, 0, program))
        return {
            "name": track_name(program, self._transcriber.class_names),
            "colour": family_colour(family),
        }


def _why_not(error: OSError | OverflowError, host: str, port: int) -> str:
    """Why nothing can listen there, and what to do."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken, perhaps by another amt-serve; choose another with --port N "
            "(--port 0 is any that is free)"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"cannot listen at {host}, port {port} ({reason}); choose another with --host and --port "
        "(--port 0 is any that is free)"
    )


def serve(
    server: Server, load: Callable[[], SongTranscriber], ready: Callable[[], None] = lambda: None
) -> int:
    """Answer requests until Ctrl-C or SIGTERM, while the model is loaded too; the exit code.

    Args:
        server: as it was made.
        load: gives the model.
        ready: called once songs are taken.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    answering = threading.Thread(target=server.serve_forever, args=(0.2,), name="server", daemon=True)
    answering.start()
    before = signal.signal(signal.SIGTERM, stop)
    try:
        server.use(load())
        ready()
        answering.join()
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr, flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)
        server.shutdown()
        server.close()
    return 0
