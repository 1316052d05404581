"""The addresses of a server: the page, and the API behind it."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from .. import __version__
from .jobs import Decoding, Job
from .names import attachment, clean_name, result_name
from .refusal import Refusal
from .results import DOWNLOADS, SONG, read_filter, read_number
from .uploads import Body, announced_length, check_sound, receive

if TYPE_CHECKING:
    from .server import Server

_HEARTBEAT_SECONDS = 10.0
"""A stream of events says something at least as often, so that a client that is gone is noticed."""
_LINGER_SECONDS = 2.0
_PIECE = 1 << 16
_JOB = re.compile(r"/api/jobs/(?P<id>[A-Za-z0-9_-]{1,64})(/(?P<part>[a-z]+))?")
_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_Work = Callable[[str, Mapping[str, str]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 30.0
    """Seconds without a byte after which a connection is given up."""
    _body: Body | None = None

    def do_GET(self) -> None:
        """Answer GET."""
        self._answer(self._get)

    def do_HEAD(self) -> None:
        """Answer HEAD: as GET, without the content."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Answer POST."""
        self._answer(self._post)

    def do_DELETE(self) -> None:
        """Answer DELETE."""
        self._answer(self._delete)

    def handle_expect_100(self) -> bool:
        """Say nothing yet: a body is asked for once it is known that it may come."""
        return True

    def version_string(self) -> str:
        """What answers say of the program that made them."""
        return f"amt/{__version__}"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the queue has a line for each song."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library finds wrong with a request, told as our own errors are."""
        self.close_connection = True
        self._send_json({"error": message or HTTPStatus(code).phrase}, HTTPStatus(code))

    def _answer(self, work: _Work) -> None:
        self._body = None
        if self.command != "POST" and self._announces_body():
            self.close_connection = True  # nobody reads it, and what follows it would be lost in it
        try:
            try:
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
            except ValueError:
                raise Refusal(HTTPStatus.BAD_REQUEST, "the address cannot be read") from None
            self.server.guard.check(self.headers, is_api=parts.path.startswith("/api/"))
            work(parts.path, query)
        except Refusal as refusal:
            self._refuse(refusal)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _announces_body(self) -> bool:
        return "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0") != "0"

    def _refuse(self, refusal: Refusal) -> None:
        is_unread = self._announces_body() if self._body is None else self._body.left > 0
        if is_unread:
            self.close_connection = True
        more = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
        self._send_json({"error": refusal.sentence}, refusal.status, more)
        if is_unread:
            self._linger()

    def _linger(self) -> None:
        """Take for a moment what is still being sent: a client that is cut off never sees the answer."""
        deadline = time.monotonic() + _LINGER_SECONDS
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER_SECONDS)
            while time.monotonic() < deadline and self.connection.recv(_PIECE):
                pass
        except OSError:
            return

    def _get(self, path: str, query: Mapping[str, str]) -> None:
        asset = self.server.assets.get(path)
        if asset is not None:
            self._send(asset.content, asset.media_type)
        elif path == "/api/info":
            self._send_json(self.server.info())
        else:
            job, part = self._find_job(path)
            if not part:
                self._send_json(self.server.queue.describe(job))
            elif part == "events":
                self._send_events(job)
            elif part in DOWNLOADS:
                name = job.name if part == SONG else result_name(job.name, DOWNLOADS[part].ending)
                with self.server.results.open(job, part, read_filter(query)) as file:
                    self._send_file(file, DOWNLOADS[part].media_type, name)
            else:
                raise _nothing_here()

    def _delete(self, path: str, query: Mapping[str, str]) -> None:
        job, part = self._find_job(path)
        if part:
            raise _nothing_here()
        self.server.queue.remove(job)
        self._send_json(self.server.queue.describe(job))

    def _find_job(self, path: str) -> tuple[Job, str]:
        found = _JOB.fullmatch(path)
        if found is None:
            raise _nothing_here()
        return self.server.queue.get(found["id"]), found["part"] or ""

    def _post(self, path: str, query: Mapping[str, str]) -> None:
        if path != "/api/transcribe":
            raise _nothing_here()
        limits, queue = self.server.limits, self.server.queue
        length = announced_length(self.headers, limits)
        decoding = self._read_decoding(query)
        self._body = Body(self.rfile, length)
        with queue.reserve(clean_name(query.get("name", "")), decoding) as job:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.send_response_only(HTTPStatus.CONTINUE)
                self.end_headers()
            with job.sound.open("xb") as target:
                name = receive(self._body, self.headers, target, limits)
            if "name" not in query:
                job.name = clean_name(name)
            job.duration = check_sound(job.sound, limits)
        self._send_json(queue.describe(job), HTTPStatus.ACCEPTED, {"Location": f"/api/jobs/{job.id}"})

    def _read_decoding(self, query: Mapping[str, str]) -> Decoding:
        overlap = read_number(query, "overlap", 0.0) if query.get("overlap") else None
        decoding = Decoding(overlap, query.get("subtask") or None)
        try:
            self.server.check(decoding)
        except ValueError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        return decoding

    def _send_events(self, job: Job) -> None:
        """A stream of events: ``job`` at every change, ``notes`` with those that became final."""
        self.close_connection = True
        last = self.headers.get("Last-Event-ID", "")
        sent = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        self._send_head(HTTPStatus.OK, {"Content-Type": "text/event-stream; charset=utf-8"})
        if self.command == "HEAD":
            return
        queue, seen = self.server.queue, -1
        while True:
            before, (seen, notes, is_over) = seen, queue.wait(job, seen, sent, _HEARTBEAT_SECONDS)
            if seen == before:
                self._write(b": waiting\n\n")
                continue
            if notes:
                sent += len(notes)
                self._write(_event("notes", {"notes": [note._asdict() for note in notes]}, sent))
            self._write(_event("job", queue.describe(job)))
            if is_over:
                return

    def _send_json(
        self, content: object, status: HTTPStatus = HTTPStatus.OK, more: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(content).encode() + b"\n"
        self._send(data, "application/json", status, more)

    def _send(
        self,
        data: bytes,
        media_type: str,
        status: HTTPStatus = HTTPStatus.OK,
        more: Mapping[str, str] | None = None,
    ) -> None:
        headers = {"Content-Type": media_type, "Content-Length": str(len(data)), **(more or {})}
        self._send_head(status, headers)
        if self.command != "HEAD":
            self._write(data)

    def _send_file(self, file: BinaryIO, media_type: str, name: str) -> None:
        """A file, or the part of it that is asked for: players move about in a sound by that."""
        size = file.seek(0, 2)
        headers = {
            "Content-Type": media_type,
            "Content-Disposition": attachment(name),
            "Accept-Ranges": "bytes",
        }
        first, last, status = 0, size - 1, HTTPStatus.OK
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked is not None and any(asked.groups()):
            start, stop = asked.groups()
            first = int(start) if start else max(0, size - int(stop))
            last = min(last, int(stop)) if start and stop else last
            if first > last:
                headers |= {"Content-Range": f"bytes */{size}", "Content-Length": "0"}
                self._send_head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
                return
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        left = last - first + 1
        self._send_head(status, headers | {"Content-Length": str(left)})
        file.seek(first)
        while left and self.command != "HEAD":
            piece = file.read(min(_PIECE, left))
            left -= len(piece)
            self._write(piece)

    def _send_head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_SECURITY, **headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)


def _nothing_here() -> Refusal:
    return Refusal(HTTPStatus.NOT_FOUND, "there is nothing at this address; docs/serve.md lists them")


def _event(kind: str, content: object, number: int | None = None) -> bytes:
    head = f"event: {kind}\n" if number is None else f"event: {kind}\nid: {number}\n"
    return f"{head}data: {json.dumps(content)}\n\n".encode()
