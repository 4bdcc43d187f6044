"""What the head of a request may look like, beyond what the parser asks.

The parser lets pass a request without Host or with several, header lines after the body, and a body behind a request for another
protocol, which it then takes for the next request. Each can be read in two ways by two servers, so none of them is read at all.
"""

from __future__ import annotations

import re
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from riata.web import bounds
from riata.web.bounds import Bounds, Refused

HOST_SEEN: Final = 1
LENGTH_SEEN: Final = 2
CODING_SEEN: Final = 4
UPGRADE_SEEN: Final = 8
# Headers that say where a request ends or for whom it is; every other one is none of the protocol's business.
WATCHED: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
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

    def __init__(self, limits: Bounds, **named: Any) -> None:
        super().__init__(**named)
        self.bounds = limits
        self.seen = 0  # which watched headers the head under way has had
        self.fed = 0  # bytes of which it may consist
        self.version = ""  # of HTTP, in the head under way
        self.host = b""  # the last that was looked at: a connection says the same one every time

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

    def _watched(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            if self.seen & HOST_SEEN or (value != self.host and HOST.fullmatch(value) is None):
                raise Refused(bounds.BAD_HOST)
            self.host = value
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
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True
