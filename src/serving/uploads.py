"""The body of a request into a file: raw or as a form, in pieces, never more than is allowed."""

from __future__ import annotations

import time
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import HTTP
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Protocol

from ..audio import AudioError, audio_info
from ..inference.predict import reason_of
from .limits import MIB, Limits
from .refusal import Refusal

_PIECE = 1 << 16
_MAX_HEAD = 1 << 14
"""Bytes of the headers of one part of a form."""
_FORM_EXTRA = 1 << 16
"""Bytes by which a form may be longer than the file in it."""
_MAX_CHANNELS = 64
UPLOAD_SECONDS = 600.0
"""A body that takes longer than this to arrive is given up."""


class _Source(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


class Body:
    """What a request carries: as many bytes as its ``Content-Length`` says, in pieces.

    Args:
        source: where the bytes come from.
        length: bytes announced.
        seconds: in which all must be there.
    """

    def __init__(self, source: _Source, length: int, seconds: float = UPLOAD_SECONDS) -> None:
        self._source = source
        self.left = length
        """Bytes that have not been read."""
        self._deadline = time.monotonic() + seconds

    def read(self) -> bytes:
        """The next piece, ``b""`` at the end.

        Raises ``ConnectionError`` when the client is gone before, :class:`~.refusal.Refusal` when it is slow.
        """
        if not self.left:
            return b""
        if time.monotonic() > self._deadline:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "the file took too long to arrive")
        piece = self._source.read1(min(_PIECE, self.left))
        if not piece:
            raise ConnectionError("the client left before its file was here")
        self.left -= len(piece)
        return piece


def announced_length(headers: Message, limits: Limits) -> int:
    """The size of a body by its headers; raises :class:`~.refusal.Refusal` when it may not come."""
    if "Transfer-Encoding" in headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "send the file with a Content-Length, not in chunks")
    lengths = headers.get_all("Content-Length") or []
    if len(lengths) != 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "send the file with a Content-Length")
    # More digits than any size has: not worth making a number of.
    length = int(lengths[0]) if len(lengths[0]) < 16 else limits.max_bytes * 2 + _FORM_EXTRA
    if length > limits.max_bytes + (_FORM_EXTRA if _boundary(headers) else 0):
        raise _too_large(limits)
    if not length:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the request carries no file")
    return length


def receive(body: Body, headers: Message, target: BinaryIO, limits: Limits) -> str:
    """Write the file of a request to ``target``; the name it has in a form, "" for raw bodies.

    Raises :class:`~.refusal.Refusal` for a form that holds no file, or a file that is too large.
    """
    room = _Room(target, limits)
    boundary = _boundary(headers)
    if boundary:
        name = _FormReader(body, boundary).save_file(room)
    else:
        name = ""
        while piece := body.read():
            room.write(piece)
    if not room.written:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the file is empty")
    return name


class _Room:
    """A file that takes no more than the limit."""

    def __init__(self, target: BinaryIO, limits: Limits) -> None:
        self._target, self._limits = target, limits
        self.written = 0

    def write(self, piece: bytes) -> None:
        self.written += len(piece)
        if self.written > self._limits.max_bytes:
            raise _too_large(self._limits)
        self._target.write(piece)


def _too_large(limits: Limits) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the file is larger than {limits.max_bytes // MIB} MiB; send a shorter or compressed one, or start "
        "amt-serve with a larger --max-mb",
    )


def _boundary(headers: Message) -> bytes:
    """What parts the parts of a form; empty for a raw body."""
    if headers.get_content_type() != "multipart/form-data":
        return b""
    boundary = headers.get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= 70 or not boundary.isascii():
        raise Refusal(HTTPStatus.BAD_REQUEST, "the form does not say how its parts are parted")
    return boundary.encode("ascii")


class _FormReader:
    """Reads a ``multipart/form-data`` body (RFC 7578) without holding more than a piece of it."""

    def __init__(self, body: Body, boundary: bytes) -> None:
        self._body = body
        self._mark = b"\r\n--" + boundary
        self._held = b"\r\n"  # the first mark may stand at the very start

    def save_file(self, room: _Room) -> str:
        """Write the first part that is a file to ``room``; the name of the file."""
        found: str | None = None
        self._copy_to_mark(None)
        while self._next_is_part():
            head = BytesHeaderParser(policy=HTTP).parsebytes(self._take_until(b"\r\n\r\n", "headers"))
            name = head.get_filename()
            if name is not None and found is None:
                found = str(name)
                self._copy_to_mark(room)
            else:
                self._copy_to_mark(None)
        while self._body.read():
            pass
        if found is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the form holds no file; curl -F file=@song.wav sends one")
        return found

    def _copy_to_mark(self, room: _Room | None) -> None:
        """Everything up to the next mark, which is taken away."""
        while (place := self._held.find(self._mark)) < 0:
            safe = max(0, len(self._held) - len(self._mark) + 1)
            if room is not None:
                room.write(self._held[:safe])
            self._held = self._held[safe:] + self._more("mark")
        if room is not None:
            room.write(self._held[:place])
        self._held = self._held[place + len(self._mark) :]

    def _next_is_part(self) -> bool:
        """Whether another part follows the mark, and not the end."""
        while len(self._held) < 2:
            self._held += self._more("mark")
        if self._held.startswith(b"--"):
            return False
        self._take_until(b"\r\n", "mark")
        self._held = b"\r\n" + self._held  # a part without headers begins with the empty line
        return True

    def _take_until(self, end: bytes, what: str) -> bytes:
        while (place := self._held.find(end)) < 0:
            if len(self._held) > _MAX_HEAD:
                raise _broken_form(what)
            self._held += self._more(what)
        taken, self._held = self._held[:place], self._held[place + len(end) :]
        return taken.removeprefix(b"\r\n") + b"\r\n"

    def _more(self, what: str) -> bytes:
        piece = self._body.read()
        if not piece:
            raise _broken_form(what)
        return piece


def _broken_form(what: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, f"the form is broken: the {what} of a part does not end")


def check_sound(path: Path, limits: Limits) -> float:
    """The length of an audio file in seconds, by its header.

    Raises :class:`~.refusal.Refusal` for what is no audio, and what is too long.
    """
    try:
        info = audio_info(path)
    except AudioError as error:
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the file {reason_of(error, path)}") from None
    if info.channels > _MAX_CHANNELS:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the file has {info.channels} channels; send at most {_MAX_CHANNELS}",
        )
    seconds = info.frames / info.sample_rate
    if seconds > limits.max_seconds:
        raise Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the song is longer than {limits.max_minutes:g} minutes; send a part of it, or start amt-serve "
            "with a larger --max-minutes",
        )
    return seconds
