"""Bodies into files: raw, and as forms, whatever pieces they come in."""

from __future__ import annotations

import io
from email.message import Message
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amt.serving.limits import Limits
from amt.serving.refusal import Refusal
from amt.serving.uploads import Body, announced_length, receive

SMALL = Limits(max_mb=1)


class Pieces:
    """Gives bytes in pieces of changing size, as a network does."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._source, self._sizes = io.BytesIO(data), sizes or [1 << 16]

    def read1(self, size: int = -1, /) -> bytes:
        self._sizes = self._sizes[1:] + self._sizes[:1]
        return self._source.read(min(size, self._sizes[0]))


def headers(**values: str) -> Message:
    made = Message()
    for name, value in values.items():
        made[name.replace("_", "-")] = value
    return made


def form(boundary: str, *parts: tuple[str, bytes]) -> bytes:
    lines = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n" for head, content in parts]
    return b"".join(lines) + f"--{boundary}--\r\n".encode()


def read_form(data: bytes, boundary: str = "xyz", sizes: list[int] | None = None) -> tuple[str, bytes]:
    target = io.BytesIO()
    kind = headers(Content_Type=f"multipart/form-data; boundary={boundary}")
    name = receive(Body(Pieces(data, sizes or []), len(data)), kind, target, SMALL)
    return name, target.getvalue()


FIELD = 'Content-Disposition: form-data; name="note"'
FILE = 'Content-Disposition: form-data; name="file"; filename="a song é.wav"\r\nContent-Type: audio/wav'


@given(st.binary(min_size=1), st.lists(st.integers(1, 40), max_size=5))
def test_a_form_gives_its_file_whatever_is_in_it(content: bytes, sizes: list[int]) -> None:
    data = form("xyz", (FIELD, b"before"), (FILE, content), (FILE.replace("song", "other"), b"second file"))
    if b"\r\n--xyz" in b"\r\n" + content:
        return
    assert read_form(data, sizes=sizes) == ("a song é.wav", content)


def test_marks_that_almost_part() -> None:
    content = b"\r\n--xy\r\n--xy\r\n-\r\r\n--"
    assert read_form(form("xyz", (FILE, content)), sizes=[1])[1] == content
    assert read_form(b"a preamble\r\n" + form("xyz", (FILE, b"sound")) + b"an epilogue")[1] == b"sound"


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (form("xyz", (FIELD, b"text")), "holds no file"),
        (form("xyz", (FILE, b"")), "is empty"),
        (form("xyz", (FILE, b"cut"))[:-12], "is broken"),
        (form("abc", (FILE, b"other mark")), "is broken"),
        (b"--xyz\r\n" + b"X: y\r\n" * 5000, "is broken"),
        (b"--xyz", "is broken"),
    ],
)
def test_broken_forms(data: bytes, part: str) -> None:
    with pytest.raises(Refusal, match=part) as caught:
        read_form(data)
    assert caught.value.status is HTTPStatus.BAD_REQUEST


def test_no_more_than_allowed_is_written() -> None:
    for kind, data in (
        (headers(), b"x" * (SMALL.max_bytes + 1)),
        (
            headers(Content_Type="multipart/form-data; boundary=xyz"),
            form("xyz", (FILE, b"x" * (SMALL.max_bytes + 1))),
        ),
    ):
        target = io.BytesIO()
        with pytest.raises(Refusal, match="larger than 1 MiB") as caught:
            receive(Body(io.BufferedReader(io.BytesIO(data)), len(data)), kind, target, SMALL)  # type: ignore[arg-type]
        assert caught.value.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert len(target.getvalue()) <= SMALL.max_bytes


def test_a_body_ends_where_it_says() -> None:
    source = io.BytesIO(b"bodythe next request")
    body = Body(source, 4)
    assert (body.read(), body.read(), body.left) == (b"body", b"", 0)
    assert source.read() == b"the next request"


def test_a_client_that_leaves_and_one_that_is_slow() -> None:
    body = Body(io.BytesIO(b"half"), 8)
    assert body.read() == b"half"
    with pytest.raises(ConnectionError):
        body.read()
    with pytest.raises(Refusal, match="too long") as caught:
        Body(io.BytesIO(b"late"), 4, seconds=-1).read()
    assert caught.value.status is HTTPStatus.REQUEST_TIMEOUT


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({}, HTTPStatus.LENGTH_REQUIRED),
        ({"Transfer_Encoding": "chunked"}, HTTPStatus.LENGTH_REQUIRED),
        ({"Content_Length": "5", "Transfer_Encoding": "chunked"}, HTTPStatus.LENGTH_REQUIRED),
        ({"Content_Length": "-5"}, HTTPStatus.LENGTH_REQUIRED),
        ({"Content_Length": "٥"}, HTTPStatus.LENGTH_REQUIRED),
        ({"Content_Length": "0"}, HTTPStatus.BAD_REQUEST),
        ({"Content_Length": str(SMALL.max_bytes + 1)}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ({"Content_Length": "9" * 5000}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ({"Content_Length": "5", "Content_Type": "multipart/form-data"}, HTTPStatus.BAD_REQUEST),
        ({"Content_Length": "5", "Content_Type": "multipart/form-data; boundary="}, HTTPStatus.BAD_REQUEST),
    ],
)
def test_lengths_that_are_refused(said: dict[str, str], status: HTTPStatus) -> None:
    with pytest.raises(Refusal) as caught:
        announced_length(headers(**said), SMALL)
    assert caught.value.status is status


def test_lengths_that_may_come() -> None:
    assert announced_length(headers(Content_Length=str(SMALL.max_bytes)), SMALL) == SMALL.max_bytes
    kind = "multipart/form-data; boundary=xyz"
    length = SMALL.max_bytes + 1000
    assert announced_length(headers(Content_Length=str(length), Content_Type=kind), SMALL) == length
