"""Which requests are answered at all: those a page of another site makes in a browser are not.

A browser on this machine reaches the server, and so does what any web page runs in it. Two rules keep
other pages out. The name in ``Host`` must be one of ours, so that a foreign name which is made to lead here
(DNS rebinding) opens nothing. And what a page sends must come from our own page, by ``Origin`` and
``Sec-Fetch-Site``, which browsers set and pages cannot change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from email.message import Message
from http import HTTPStatus
from urllib.parse import urlsplit

from .refusal import Refusal

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at ``host``."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


class Guard:
    """Looks at the headers of each request.

    Args:
        host: where the server listens.
        names: further names by which browsers may reach it.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        self._names = _LOCAL_NAMES | {name.lower().strip("[]") for name in (host, *names)}
        # A number is no name that could be made to lead elsewhere; on loopback only our own are needed.
        self._takes_addresses = not is_loopback(host)

    def check(self, headers: Message, *, is_api: bool) -> None:
        """Raises :class:`~.refusal.Refusal` for a request that is not meant for us."""
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            said = hosts[0] if hosts else "none"
            raise Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server is not called {said[:100]!r}; amt-serve --name adds a name",
            )
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != hosts[0].lower():
            raise Refusal(HTTPStatus.FORBIDDEN, "this request comes from a page of another site")
        if is_api and headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refusal(HTTPStatus.FORBIDDEN, "this request comes from a page of another site")

    def _is_ours(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.netloc != host or parts.username is not None:
            return False
        return name in self._names or (self._takes_addresses and _address(name) is not None)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
