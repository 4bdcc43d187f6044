"""Validation of request heads beyond what the parser checks, against request smuggling and cross-site requests.

The parser accepts a request without Host or with several, trailers after the body, and a body after an upgrade request, which it
then takes for the next request. Two servers may read each of these differently, so all are refused.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too
(`web/sites.py`). A head that a connection repeats is compared byte for byte (`web/again.py`), so the result of its first check
remains valid.
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
FOREIGN_SEEN: Final = 32  # sent by a page of another site, according to the browser
# Headers that determine where a request ends, its host or its origin. The protocol ignores all others.
WATCHED: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site"}
)
HOST: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?[ \t]*")
LENGTH: Final = re.compile(rb"[0-9]{1,19}[ \t]*")


class NoTrailers(list[tuple[bytes, bytes]]):
    """Replaces the list of headers once they are complete: the parser reports trailers as if they were headers."""

    def append(self, _pair: tuple[bytes, bytes]) -> None:
        """Refuse the request."""
        raise Refused(bounds.BAD_CHUNKS)


NO_TRAILERS: Final = NoTrailers()


def lines_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the size of header lines in bytes, as sent."""
    return sum(len(name) + len(value) + len(": \r\n") for name, value in headers)


class CheckedHeads(HttpToolsProtocol):
    """The part of the protocol that checks header lines. Raises `Refused` inside the parser's callbacks."""

    def __init__(self, limits: Bounds, hosts: Hosts | None, **named: Any) -> None:
        super().__init__(**named)
        self.bounds = limits
        self.hosts = hosts
        self.seen = 0  # flags of the watched headers seen in the current head
        self.fed = 0  # an upper bound of its size in bytes
        self.version = ""  # of HTTP, in the current head
        self.host = b""  # the last one checked: a connection sends the same every time
        self.origin = b""  # of the current head, if it has one

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check and store one header line."""
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
            raise Refused(bounds.UPGRADE_WITH_BODY)  # the parser would read the body as the next request
        if len(self.url) > limits.target_bytes_max:
            raise Refused(bounds.TARGET_TOO_LONG)
        if len(self.headers) > limits.headers_max:
            raise Refused(bounds.HEAD_TOO_LARGE)
        # `fed` may include a body or further requests, so the lines themselves are measured if `fed` exceeds the limit.
        if self.fed > limits.head_bytes_max and lines_bytes(self.headers) > limits.head_bytes_max:
            raise Refused(bounds.HEAD_TOO_LARGE)

    def _check_host(self, value: bytes) -> None:
        if HOST.fullmatch(value) is None:
            raise Refused(bounds.BAD_HOST)
        if self.hosts is not None and not self.hosts.answers(value):
            raise Refused(bounds.HOST_NOT_ALLOWED)
        self.host = value

    def _check_target(self) -> None:
        """Check a target that is not a path: an absolute URI, as sent to proxies, or the `*` of OPTIONS."""
        if self.url == b"*":
            return
        if self.seen & HOST_SEEN:
            if not names_same_host(self.url, self.host):
                raise Refused(bounds.BAD_TARGET)
        elif self.hosts is not None:  # HTTP/1.0: only the URI names the host
            raise Refused(bounds.HOST_NOT_ALLOWED)

    def _check_site(self) -> None:
        """Refuse a request of a page of another site that would change state."""
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
            if value != self.host or not value:  # the initial `host` is empty
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
