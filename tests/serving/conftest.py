"""A server with a tiny network, a client, and a browser."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import soundfile

from amt.inference import DecodingChoices, SongTranscriber
from amt.serving.limits import Limits
from amt.serving.server import Server
from chromium import BROWSERS, SECONDS, Browser, find_chromium
from script_loading import TESTS, load_script

_inference = load_script(TESTS / "inference" / "conftest.py")
tiny, lively, checkpoint, log_dir = (
    _inference.tiny,
    _inference.lively,
    _inference.checkpoint,
    _inference.log_dir,
)
_one_thread = _inference._one_thread


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        return str(self.json["error"])


class Client:
    """Sends requests to a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.server_port}"

    def __call__(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def send(self, body: bytes, query: str = "", **headers: str) -> Any:
        """A job for a song."""
        answer = self("POST", f"/api/transcribe{query}", body, headers)
        assert answer.status == 202, answer.body
        return answer.json

    def events(self, job_id: str, headers: dict[str, str] | None = None) -> list[tuple[str, Any]]:
        """Everything the stream of a job says, to its end."""
        text = self("GET", f"/api/jobs/{job_id}/events", headers=headers).body.decode()
        found = []
        for block in text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found

    def finish(self, job_id: str) -> Any:
        """Wait for the end of a job; what it is then."""
        return self.events(job_id)[-1][1]


def wav(seconds: float = 2.0, rate: int = 16000, seed: int = 0) -> bytes:
    """A WAV file of noise."""
    memory = io.BytesIO()
    samples = np.random.default_rng(seed).uniform(-0.3, 0.3, round(seconds * rate))
    soundfile.write(memory, samples, rate, format="WAV", subtype="PCM_16")
    return memory.getvalue()


@pytest.fixture(scope="session")
def make_wav() -> Callable[..., bytes]:
    return wav


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers on free ports; each is closed in the end, and must leave nothing behind."""
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    running: list[tuple[Server, threading.Thread]] = []

    def begin(transcriber: Any = None, limits: Limits | None = None, **settings: Any) -> Client:
        server = Server(limits=limits, say=lambda line: None, **settings)
        if transcriber is not None:
            server.use(transcriber)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        running.append((server, thread))
        return Client(server)

    yield begin
    for server, thread in running:
        server.shutdown()
        server.close()
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert list(home.iterdir()) == []


@pytest.fixture(scope="session")
def writer(lively: SongTranscriber) -> SongTranscriber:
    """A network that writes well-formed nonsense: notes of several instruments."""
    return lively.with_choices(DecodingChoices(batch_size=3, constrain=True))


@pytest.fixture(scope="session")
def chromium_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium, where one is installed."""
    executable = find_chromium()
    if executable is None or sys.platform == "win32":
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the path")
    made = Browser(executable, tmp_path_factory.mktemp("profile é"))
    yield made
    made.close()


@pytest.fixture
def browser(chromium_process: Browser) -> Iterator[Browser]:
    """A fresh page in a Chromium."""
    chromium_process.begin()
    yield chromium_process
    chromium_process.end()
