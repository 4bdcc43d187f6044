"""What the head of a request may look like, beyond what the parser asks.

The parser lets pass a request without Host or with several, header lines after the body, and a body behind a request for another
protocol, which it then takes for the next request. Each can be read in two ways by two servers, so none of them is read at all.

Where callers are not asked for keys, requests that web pages of other sites have browsers send are refused here too
(`web/sites.py`). A head that a connection says again and again is compared byte for byte (`web/again.py`), so what was decided
about it once stands.
"""

from __future__ import annotations

import re
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from riata.base.hosts import Hosts
from riata.web import bounds
from riata.web.bounds import Bounds, Refused
from riata.web.sites import changes_state, is_fetched_here, is_same_origin, names_same_host

HOST_SEEN: Final = 1
LENGTH_SEEN: Final = 2
CODING_SEEN: Final = 4
UPGRADE_SEEN: Final = 8
ORIGIN_SEEN: Final = 16
FOREIGN_SEEN: Final = 32  # a browser says that a page of another site sent it
# Headers that say where a request ends, for whom it is or who has sent it; every other one is none of the protocol's business.
WATCHED: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site"}
)
HOST: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?[ \t]*")
LENGTH: Final = re.compile(rb"[0-9]{1,19}[ \t]*")


class NoTrailers(list[tuple[bytes, bytes]]):
    """Takes the place of the headers once they are whole: the parser hands trailers over as if they were more of them."""

    def append(self, _pair: tuple[bytes, bytes]) -> None:
        """Refuse the request."""
        raise Refused(bounds.BAD_CHUNKS)


NO_TRAILERS: Final = NoTrailers()


def lines_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    """Return how long header lines are as they were sent."""
    return sum(len(name) + len(value) + len(": \r\n") for name, value in headers)


class CheckedHeads(HttpToolsProtocol):
    """The part of the protocol that looks at header lines. Raises `Refused` inside the parser's callbacks."""

    def __init__(self, limits: Bounds, hosts: Hosts | None, **named: Any) -> None:
        super().__init__(**named)
        self.bounds = limits
        self.hosts = hosts
        self.seen = 0  # which watched headers the head under way has had
        self.fed = 0  # bytes of which it may consist
        self.version = ""  # of HTTP, in the head under way
        self.host = b""  # the last that was looked at: a connection says the same one every time
        self.origin = b""  # of the head under way, if it has one

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        name = name.lower()
        if name in WATCHED:
            self._watched(name, value)
        self.headers.append((name, value))

    def _check_head(self) -> None:
        limits, seen = self.bounds, self.seen
        self.version = version = self.parser.get_http_version()
        if version != "1.1" and version != "1.0":
            raise Refused(bounds.MALFORMED)
        if not seen & HOST_SEEN and version == "1.1":
            raise Refused(bounds.BAD_HOST)
        if self.url[:1] != b"/":
            self._check_target()
        if seen & (ORIGIN_SEEN | FOREIGN_SEEN) and self.hosts is not None:
            self._check_site()
        if seen & CODING_SEEN and (seen & LENGTH_SEEN or version == "1.0"):
            raise Refused(bounds.BAD_LENGTH if seen & LENGTH_SEEN else bounds.BAD_CODING)
        if seen & UPGRADE_SEEN and seen & (LENGTH_SEEN | CODING_SEEN) and self.parser.should_upgrade():
            raise Refused(bounds.UPGRADE_WITH_BODY)  # the parser would take the body for the next request
        if len(self.url) > limits.target_bytes_max:
            raise Refused(bounds.TARGET_TOO_LONG)
        if len(self.headers) > limits.headers_max:
            raise Refused(bounds.HEAD_TOO_LARGE)
        # What was fed may hold a body or further requests, so the lines themselves are measured, where they can be too many.
        if self.fed > limits.head_bytes_max and lines_bytes(self.headers) > limits.head_bytes_max:
            raise Refused(bounds.HEAD_TOO_LARGE)

    def _check_host(self, value: bytes) -> None:
        if HOST.fullmatch(value) is None:
            raise Refused(bounds.BAD_HOST)
        if self.hosts is not None and not self.hosts.answers(value):
            raise Refused(bounds.HOST_NOT_ALLOWED)
        self.host = value

    def _check_target(self) -> None:
        """A target that is no path: a whole URI, which proxies are sent, or the `*` of OPTIONS."""
        if self.url == b"*":
            return
        if self.seen & HOST_SEEN:
            if not names_same_host(self.url, self.host):
                raise Refused(bounds.BAD_TARGET)
        elif self.hosts is not None:  # HTTP/1.0: the URI alone says for which host it is
            raise Refused(bounds.HOST_NOT_ALLOWED)

    def _check_site(self) -> None:
        """Refuse what a page of another site asks for, where it would change something."""
        seen = self.seen
        here = not seen & FOREIGN_SEEN
        if here and seen & ORIGIN_SEEN:
            here = bool(seen & HOST_SEEN) and is_same_origin(self.origin, self.host)
        if not here and changes_state(self.parser.get_method(), self.url):
            raise Refused(bounds.CROSS_SITE)

    def _watched(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            if self.seen & HOST_SEEN:
                raise Refused(bounds.BAD_HOST)
            if value != self.host or not value:  # empty is what it begins with
                self._check_host(value)
            self.seen |= HOST_SEEN
        elif name == b"content-length":
            if self.seen & LENGTH_SEEN or LENGTH.fullmatch(value) is None:
                raise Refused(bounds.BAD_LENGTH)
            self.seen |= LENGTH_SEEN
        elif name == b"transfer-encoding":
            if self.seen & CODING_SEEN or value.strip(b" \t").lower() != b"chunked":
                raise Refused(bounds.BAD_CODING)
            self.seen |= CODING_SEEN
        elif name == b"upgrade":
            self.seen |= UPGRADE_SEEN
        elif name == b"sec-fetch-site":
            self.seen |= 0 if is_fetched_here(value) else FOREIGN_SEEN
        elif name == b"origin":
            self.seen |= FOREIGN_SEEN if self.seen & ORIGIN_SEEN else ORIGIN_SEEN
            self.origin = value
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True
