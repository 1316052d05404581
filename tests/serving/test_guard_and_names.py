"""Who is answered, and what names of files may be."""

from __future__ import annotations

import re
from email.message import Message
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amt.serving.guard import Guard, is_loopback
from amt.serving.names import attachment, clean_name, result_name
from amt.serving.refusal import Refusal


def status(guard: Guard, is_api: bool = True, **values: str) -> int:
    said = Message()
    for name, value in values.items():
        said[name.replace("_", "-")] = value
    try:
        guard.check(said, is_api=is_api)
    except Refusal as refusal:
        return int(refusal.status)
    return 200


def test_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "LOCALHOST")))
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org", "localhost.example.org", ""))
    )


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost:9999", 200),  # through a tunnel the port is another
        ("LocalHost", 200),
        ("[::1]:8000", 200),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("192.168.1.2:8000", 421),
        ("evil@localhost", 421),
        ("localhost/evil", 421),
        ("localhost:port", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_names_of_a_local_server(host: str, answer: int) -> None:
    assert status(Guard("127.0.0.1"), Host=host) == answer


def test_no_host_and_two_hosts_are_refused() -> None:
    assert status(Guard("127.0.0.1")) == 421
    twice = Message()
    twice["Host"] = "localhost"
    twice["Host"] = "evil.example"
    with pytest.raises(Refusal) as caught:
        Guard("127.0.0.1").check(twice, is_api=True)
    assert caught.value.status is HTTPStatus.MISDIRECTED_REQUEST


def test_names_of_a_public_server() -> None:
    guard = Guard("0.0.0.0", ["Music.Example"])
    assert [
        status(guard, Host=host) for host in ("192.168.1.2:8000", "[2001:db8::1]:80", "music.example")
    ] == [
        200,
        200,
        200,
    ]
    assert status(guard, Host="evil.example") == 421, "a name may be led here, a number may not"


@pytest.mark.parametrize(
    ("origin", "answer"),
    [
        ("http://localhost:8000", 200),
        ("https://localhost:8000", 200),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_sites_are_refused(origin: str, answer: int) -> None:
    guard = Guard("127.0.0.1")
    assert status(guard, Host="localhost:8000", Origin=origin) == answer
    assert status(guard, False, Host="localhost:8000", Origin=origin) == answer


def test_what_browsers_say_of_the_page() -> None:
    guard = Guard("127.0.0.1")
    answers = {
        site: status(guard, Host="localhost", Sec_Fetch_Site=site)
        for site in ("same-origin", "none", "same-site", "cross-site")
    }
    assert answers == {"same-origin": 200, "none": 200, "same-site": 403, "cross-site": 403}
    assert status(guard, False, Host="localhost", Sec_Fetch_Site="cross-site") == 200, "a link to the page"


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("song.wav", "song.wav"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\song é.wav", "song é.wav"),
        ("/", "song"),
        ("..", "song"),
        ("", "song"),
        ("a\r\nSet-Cookie: b\x1b[2J", "a Set-Cookie: b [2J"),
        ("\u202egnp.wav", "gnp.wav"),
    ],
)
def test_names(given_name: str, kept: str) -> None:
    assert clean_name(given_name) == kept


@given(st.text())
def test_names_are_one_printable_line_and_headers_hold_them(name: str) -> None:
    kept = clean_name(name)
    assert kept
    assert kept.isprintable()
    assert "/" not in kept
    assert "\\" not in kept
    assert len(kept) <= 120
    for shown in (kept, result_name(kept, "mid")):
        assert re.fullmatch(
            r"attachment; filename=\"[ !#-\[\]-~]*\"; filename\*=UTF-8''[\w.%~-]*", attachment(shown)
        )


def test_long_names_keep_their_ending() -> None:
    assert clean_name("a" * 500 + ".flac").endswith(".flac")
    assert result_name("song.tar.wav", "mid") == "song.tar.mid"
    assert result_name(".wav", "mid") == ".wav.mid"
