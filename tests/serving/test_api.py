"""The HTTP API over loopback: what it gives, what it refuses, and what it leaves behind."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from amt.inference import SongTranscriber, Transcription, run_predict, write_wav
from amt.inference.choices import DecodingChoices
from amt.notes import Note, read_midi
from amt.serving.limits import Limits
from amt.serving.server import Server, page_assets

Wav = Callable[..., bytes]
Start = Callable[..., Any]
SECONDS = 120.0


@pytest.fixture
def song(make_wav: Wav) -> bytes:
    return make_wav(2.0)


class Slow:
    """A transcriber that waits for ``go`` after its first window."""

    def __init__(self, transcriber: SongTranscriber) -> None:
        self._transcriber = transcriber
        self.go = threading.Event()
        self.entered = threading.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transcriber, name)

    def with_choices(self, choices: DecodingChoices) -> Slow:
        return self

    def transcribe(self, path: Path, progress: Any, listener: Any) -> Transcription:
        self.entered.release()
        listener([Note(0.0, 0.5, 60)])
        progress(1, 2)
        assert self.go.wait(SECONDS)
        progress(2, 2)
        return Transcription([Note(0.0, 0.5, 60)], 2.0, elapsed=1.0)


@pytest.fixture
def slow(writer: SongTranscriber) -> Iterator[Slow]:
    made = Slow(writer)
    yield made
    made.go.set()


def test_notes_are_those_of_predict(
    start: Start, writer: SongTranscriber, log_dir: Path, song: bytes, tmp_path: Path
) -> None:
    """JSON, MIDI, CSV and sound, byte for byte what predict.py writes."""
    (tmp_path / "song.wav").write_bytes(song)
    out = tmp_path / "out"
    choices = writer.choices
    spec, formats = "lively@last.ckpt", ("json", "mid", "csv", "wav")
    inputs = [tmp_path / "song.wav"]
    done = run_predict(spec, inputs, out=out, log_dir=log_dir, device="cpu", choices=choices, formats=formats)
    assert done == 0
    client = start(writer)
    job = client.send(song, "?name=song.wav")
    assert client.finish(job["id"])["state"] == "done"
    assert len(json.loads((out / "song.json").read_text())["notes"]) > 10
    for part, ending in (("json", "json"), ("midi", "mid"), ("csv", "csv"), ("audio", "wav")):
        answer = client("GET", f"/api/jobs/{job['id']}/{part}")
        assert answer.status == 200
        assert answer.body == (out / f"song.{ending}").read_bytes(), part
        assert f'filename="song.{ending}"' in answer.headers["Content-Disposition"]


def test_the_stream_tells_all_notes(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    job_id = client.send(song)["id"]
    events = client.events(job_id)
    told = [note for kind, content in events if kind == "notes" for note in content["notes"]]
    kept = client("GET", f"/api/jobs/{job_id}/json").json["notes"]
    assert sorted(told, key=str) == sorted(kept, key=str)
    states = [content["state"] for kind, content in events if kind == "job"]
    assert states[-1] == "done"
    last = events[-1][1]
    assert last["windows"]["done"] == last["windows"]["total"] > 1
    assert last["notes"] == len(kept) == sum(one["notes"] for one in last["instruments"])
    assert last["duration"] == 2.0
    later = client.events(job_id, {"Last-Event-ID": str(len(kept) - 1)})
    assert [content for kind, content in later if kind == "notes"] == [{"notes": told[-1:]}], "it goes on"


def test_a_form_is_as_good_as_a_raw_body(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="../\xc3\xa9 song.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + song + b"\r\n--xyz--\r\n"
    )
    kind = {"Content-Type": "multipart/form-data; boundary=xyz"}
    answer = client("POST", "/api/transcribe", body, kind)
    assert answer.status == 202
    assert answer.headers["Location"] == f"/api/jobs/{answer.json['id']}"
    assert answer.json["name"] == "é song.wav"
    raw = client.send(song)
    assert raw["name"] == "song"
    first, second = (client.finish(job["id"]) for job in (answer.json, raw))
    assert first["notes"] == second["notes"] > 0
    midi = client("GET", f"/api/jobs/{answer.json['id']}/midi")
    assert "filename*=UTF-8''%C3%A9%20song.mid" in midi.headers["Content-Disposition"]


def test_the_filter_holds_for_every_download(
    start: Start, writer: SongTranscriber, song: bytes, tmp_path: Path
) -> None:
    client = start(writer)
    job_id = client.send(song)["id"]
    job = client.finish(job_id)
    notes = client("GET", f"/api/jobs/{job_id}/json").json["notes"]

    def program(note: dict[str, Any]) -> int:
        return 128 if note["is_drum"] else int(note["program"])

    programs = [one["program"] for one in job["instruments"]]
    assert len(programs) > 2
    wanted = programs[::2]
    lengths = sorted(note["offset"] - note["onset"] for note in notes if not note["is_drum"])
    shortest = lengths[len(lengths) // 2] * 1000
    query = f"?programs={','.join(map(str, wanted))}&min_note_ms={shortest}"
    kept = client("GET", f"/api/jobs/{job_id}/json{query}").json["notes"]
    assert kept == [
        note
        for note in notes
        if program(note) in wanted
        and (note["is_drum"] or note["offset"] - note["onset"] >= shortest / 1000 - 1e-9)
    ]
    assert 0 < len(kept) < len(notes)
    (tmp_path / "a.mid").write_bytes(client("GET", f"/api/jobs/{job_id}/midi{query}").body)
    assert len(read_midi(tmp_path / "a.mid")) == len(kept)
    full, part, none = (
        client("GET", f"/api/jobs/{job_id}/audio{text}").body for text in ("", query, "?programs=")
    )
    assert full != part
    silence, rate = soundfile.read(io.BytesIO(none))
    assert (len(silence) / rate, np.abs(silence).max()) == (2.0, 0.0)
    assert client("GET", f"/api/jobs/{job_id}/json?programs=").json["notes"] == []


def test_shorter_notes_left_out_here_or_at_the_start_are_the_same(
    start: Start, writer: SongTranscriber, song: bytes
) -> None:
    client = start(writer)
    job_id = client.send(song)["id"]
    client.finish(job_id)
    filtered = client("GET", f"/api/jobs/{job_id}/json?min_note_ms=40").json["notes"]
    other = start(writer.with_choices(DecodingChoices(batch_size=3, constrain=True, min_note_ms=40.0)))
    other_id = other.send(song)["id"]
    other.finish(other_id)
    assert other("GET", f"/api/jobs/{other_id}/json").json["notes"] == filtered


def test_options_of_decoding(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    plain, half = (client.send(song, query)["id"] for query in ("", "?overlap=0.5"))
    first, second = client.finish(plain), client.finish(half)
    assert (first["overlap"], second["overlap"]) == (None, 0.5)
    assert second["windows"]["total"] > first["windows"]["total"]
    for query, part in (
        ("?overlap=2", "--overlap"),
        ("?overlap=x", "overlap expects a number"),
        ("?subtask=singing-only", "no sub-tasks"),
    ):
        answer = client("POST", f"/api/transcribe{query}", song)
        assert answer.status == 400
        assert part in answer.error


def test_the_song_comes_back_as_wav(start: Start, writer: SongTranscriber, tmp_path: Path) -> None:
    samples = np.sin(np.arange(48000) / 20).astype(np.float32) / 2
    memory = io.BytesIO()
    soundfile.write(memory, np.stack([samples, samples], 1), 48000, format="AIFF")
    client = start(writer)
    job_id = client.send(memory.getvalue(), "?name=a.aiff")["id"]
    answer = client("GET", f"/api/jobs/{job_id}/song")
    heard, rate = soundfile.read(io.BytesIO(answer.body))
    assert (answer.headers["Content-Type"], rate, heard.ndim) == ("audio/wav", 44100, 1)
    assert len(heard) == 44100
    assert 0.45 < np.abs(heard).max() < 0.55


def test_parts_of_a_sound(start: Start, writer: SongTranscriber, song: bytes) -> None:
    """Players ask for ranges."""
    client = start(writer)
    path = f"/api/jobs/{client.send(song)['id']}/song"
    whole = client("GET", path).body
    size = len(whole)
    for said, first, last in (
        ("bytes=0-99", 0, 99),
        ("bytes=100-", 100, size - 1),
        ("bytes=-50", size - 50, size - 1),
        (f"bytes=10-{size * 2}", 10, size - 1),
    ):
        answer = client("GET", path, headers={"Range": said})
        assert answer.status == 206
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{size}"
        assert answer.body == whole[first : last + 1]
    beyond = client("GET", path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.headers["Content-Range"], beyond.body) == (416, f"bytes */{size}", b"")
    for ignored in ("bytes=-", "bytes=1-2,4-5", "lines=1-2"):
        assert client("GET", path, headers={"Range": ignored}).body == whole
    head = client("HEAD", path)
    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(size), b"")


def test_too_large_too_long_and_no_sound(start: Start, writer: SongTranscriber, make_wav: Wav) -> None:
    client = start(writer, Limits(max_mb=1, max_minutes=1 / 60))
    large = client("POST", "/api/transcribe", b"x" * (2**20 + 1))
    assert large.status == 413
    assert "--max-mb" in large.error
    long = client("POST", "/api/transcribe", make_wav(1.5))
    assert long.status == 413
    assert "--max-minutes" in long.error
    many = io.BytesIO()
    soundfile.write(many, np.zeros((10, 65)), 8000, format="WAV")
    cut = make_wav(0.5)[:20]
    for body, part in (
        (b"no sound at all", "cannot be read as audio"),
        (b"<html>", "cannot be read as audio"),
        (cut, "cannot be read as audio"),
        (b"RIFF" + b"\xff" * 200, "cannot be read as audio"),
        (many.getvalue(), "65 channels"),
    ):
        answer = client("POST", "/api/transcribe", body)
        assert answer.status == 422
        assert part in answer.error
        assert "amt-serve" not in answer.error, "no path"
    assert client("POST", "/api/transcribe").status == 400
    assert client.finish(client.send(make_wav(0.9))["id"])["state"] == "done"


def test_a_huge_body_is_refused_before_it_is_sent(start: Start, writer: SongTranscriber) -> None:
    client = start(writer, Limits(max_mb=1))
    for expects in ("", "Expect: 100-continue\r\n"):
        with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=SECONDS) as line:
            head = f"POST /api/transcribe HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**40}\r\n"
            line.sendall(f"{head}{expects}\r\n".encode())
            said = line.makefile("rb").readline()
        assert b"413" in said


def test_a_body_is_asked_for_when_it_may_come(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=SECONDS) as line:
        line.sendall(
            b"POST /api/transcribe HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            + f"Content-Length: {len(song)}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = line.makefile("rb")
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert answer.readline() == b"\r\n"
        line.sendall(song)
        assert b"202" in answer.readline()


def test_a_client_that_leaves_while_sending(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer, Limits(max_waiting=1))
    home = Path(client.server._folder.name)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=SECONDS) as line:
            line.sendall(
                b"POST /api/transcribe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nhalf"
            )
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100) == b"", "there is nobody to answer"
    assert list(home.iterdir()) == []
    assert client.finish(client.send(song)["id"])["state"] == "done", "its place is free again"


def test_a_client_that_leaves_while_listening(start: Start, slow: Slow, song: bytes) -> None:
    client = start(slow)
    job_id = client.send(song)["id"]
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=SECONDS) as line:
        line.sendall(f"GET /api/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200" in line.makefile("rb").readline()
    slow.go.set()
    assert client.finish(job_id)["state"] == "done", "its song goes on"


def test_waiting_cancelling_and_a_full_queue(start: Start, slow: Slow, song: bytes) -> None:
    client = start(slow, Limits(max_waiting=1))
    running = client.send(song)
    assert slow.entered.acquire(timeout=SECONDS)
    waiting = client.send(song)
    assert client("GET", f"/api/jobs/{waiting['id']}").json["ahead"] == 1
    full = client("POST", "/api/transcribe", song)
    assert (full.status, full.headers["Retry-After"]) == (503, "30")
    assert "waiting already" in full.error
    early = client("GET", f"/api/jobs/{running['id']}/midi")
    assert early.status == 409
    assert "running" in early.error
    for job in (waiting, running):
        answer = client("DELETE", f"/api/jobs/{job['id']}")
        assert answer.json["state"] == "cancelled"
        assert client("GET", f"/api/jobs/{job['id']}").status == 404
    slow.go.set()
    assert client.finish(client.send(song)["id"])["state"] == "done", "the service goes on"


def test_a_finished_song_can_be_removed(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    job_id = client.send(song)["id"]
    client.finish(job_id)
    assert client("GET", f"/api/jobs/{job_id}/audio").status == 200
    assert client("DELETE", f"/api/jobs/{job_id}").status == 200
    assert list(Path(client.server._folder.name).iterdir()) == []
    for part in ("", "/midi", "/song", "/events"):
        assert client("GET", f"/api/jobs/{job_id}{part}").status == 404


def test_a_song_keeps_a_few_files_only(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    job_id = client.send(song)["id"]
    client.finish(job_id)
    for number in range(20):
        client("GET", f"/api/jobs/{job_id}/midi?min_note_ms={number}")
    assert len(list((Path(client.server._folder.name) / job_id).iterdir())) < 12
    long = ",".join(map(str, range(129)))
    assert client("GET", f"/api/jobs/{job_id}/midi?programs={long}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/page/index.html",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/server.py",
        "/index.html",
        "/style.css/..",
        "/api/jobs/..",
        "/api/jobs/../../etc/passwd/song",
        "/api/jobs/..%2F..%2Fetc%2Fpasswd/song",
        "/api/jobs/x/song",
        "/api/jobs//song",
        "/api/jobs/x/../midi",
        "/api/transcribe",
        "/favicon.ico",
    ],
)
def test_no_path_leads_to_a_file(start: Start, writer: SongTranscriber, path: str) -> None:
    client = start(writer)
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=SECONDS) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        said = line.makefile("rb").read()
    assert said.startswith(b"HTTP/1.1 404")
    assert b"root:" not in said


def test_a_job_has_no_parts_but_its_own(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer)
    job_id = client.send(song, "?name=../../evil.wav")["id"]
    client.finish(job_id)
    for part in ("sound", "parts", "..", "mid", "json/..", "x"):
        assert client("GET", f"/api/jobs/{job_id}/{part}").status == 404
    for query in (
        "programs=x",
        "programs=-1",
        "programs=129",
        "programs=1;2",
        "min_note_ms=-1",
        "min_note_ms=nan",
    ):
        answer = client("GET", f"/api/jobs/{job_id}/midi?{query}")
        assert answer.status == 400
        assert query.partition("=")[0] in answer.error
    assert client("DELETE", f"/api/jobs/{job_id}/midi").status == 404
    assert client("GET", f"/api/jobs/{job_id}?{'&'.join('a=b' for _ in range(50))}").status == 400
    assert sorted(path.name for path in Path(client.server._folder.name).iterdir()) == [job_id]


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods(start: Start, writer: SongTranscriber, method: str) -> None:
    answer = start(writer)(method, "/api/info")
    assert answer.status == 501
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_foreign_hosts_and_pages(start: Start, writer: SongTranscriber, song: bytes) -> None:
    client = start(writer, names=["music.example"])
    assert client("GET", "/", headers={"Host": "evil.example"}).status == 421
    assert client("GET", "/api/info", headers={"Host": "music.example:1"}).status == 200
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ):
        assert client("POST", "/api/transcribe", song, headers).status in (403, 421)
        assert client("GET", "/api/info", headers=headers).status in (403, 421)
    own = {"Origin": f"http://{client.host}", "Sec-Fetch-Site": "same-origin"}
    assert client("POST", "/api/transcribe", song, own).status == 202


def test_every_answer_forbids_what_is_not_ours(start: Start, writer: SongTranscriber) -> None:
    client = start(writer)
    for path in ("/", "/app.js", "/api/info", "/nothing"):
        headers = client("GET", path).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Python" not in headers["Server"]


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assets = page_assets()
    assert set(assets) == {"/", "/app.js", "/api.js", "/icon.svg", "/player.js", "/roll.js", "/style.css"}
    page = assets["/"].content.decode()
    for address in ("/app.js", "/style.css", "/icon.svg"):
        assert f'"{address}"' in page
    for content in (asset.content.decode() for asset in assets.values()):
        assert "https://" not in content
        assert "http://" not in content.replace("http://www.w3.org/2000/svg", "")
    assert " style=" not in page
    assert " onclick=" not in page


def test_a_connection_carries_several_requests(start: Start, writer: SongTranscriber, song: bytes) -> None:
    import http.client

    client = start(writer)
    line = http.client.HTTPConnection(client.host, timeout=SECONDS)
    for _ in range(2):
        line.request("POST", "/api/transcribe", song)
        answer = line.getresponse()
        assert answer.status == 202
        assert answer.headers["Connection"] is None
        answer.read()
    line.request("GET", "/api/info", body=b"a body that nobody reads")
    answer = line.getresponse()
    assert answer.headers["Connection"] == "close", "what follows would be read as a request"
    answer.read()
    line.close()


def test_nonsense_is_answered_as_json(start: Start, writer: SongTranscriber) -> None:
    client = start(writer)
    for line, status in (
        (b"GET / HTTP/9.9\r\n\r\n", b"Invalid HTTP version"),
        (b"NONSENSE\r\n\r\n", b"Bad request syntax"),
        (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
    ):
        with socket.create_connection(
            ("127.0.0.1", client.server.server_port), timeout=SECONDS
        ) as connection:
            connection.sendall(line)
            said = connection.makefile("rb").read()
        assert status in said
        assert b'{"error": ' in said
    assert client("GET", "/api/info").status == 200


def test_too_many_connections_are_turned_away(
    start: Start, writer: SongTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amt.serving.server._MAX_CONNECTIONS", 2)
    client = start(writer)
    address = ("127.0.0.1", client.server.server_port)
    held = [socket.create_connection(address, timeout=SECONDS) for _ in range(2)]
    for line in held:
        line.sendall(b"GET /api/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in line.recv(1000)
    with socket.create_connection(address, timeout=SECONDS) as line:
        assert line.recv(100) == b""
    for line in held:
        line.close()


def test_before_the_model_is_loaded(start: Start, writer: SongTranscriber) -> None:
    client = start()
    assert client("GET", "/").status == 200
    for answer in (client("GET", "/api/info"), client("POST", "/api/transcribe", b"RIFF")):
        assert answer.status == 503
        assert answer.error == "the model is being loaded; try again in a moment"
        assert answer.headers["Retry-After"] == "1"
    client.server.use(writer)
    assert client("GET", "/api/info").json["task"] == writer.experiment.task


def test_where_nobody_can_listen(start: Start) -> None:
    port = start().server.server_port
    with pytest.raises(ValueError, match=f"^port {port} of 127.0.0.1 is taken.*--port"):
        Server(port=port)
    with pytest.raises(ValueError, match=r"port 70000.*--port"):
        Server(port=70000)
    with pytest.raises(ValueError, match="no-such-host"):
        Server(host="no-such-host.invalid")


def test_addresses_to_open(start: Start, writer: SongTranscriber) -> None:
    client = start(writer, host="0.0.0.0")
    assert client.server.url == f"http://127.0.0.1:{client.server.server_port}/"
    assert client("GET", "/", headers={"Host": socket.gethostname()}).status == 200


def test_results_last_while_they_are_read(start: Start, writer: SongTranscriber, tmp_path: Path) -> None:
    """A song that is removed while it is sent is sent to its end."""
    from amt.serving.results import NoteFilter

    client = start(writer)
    sound = np.zeros(16000, dtype=np.float32)
    write_wav(tmp_path / "a.wav", sound, 16000)
    job = client.server.queue.get(client.send((tmp_path / "a.wav").read_bytes())["id"])
    client.finish(job.id)
    with client.server.results.open(job, "audio", NoteFilter()) as file:
        client("DELETE", f"/api/jobs/{job.id}")
        assert len(file.read()) == 16000 * 2 + 44
