"""Validation of request heads that are not plain (`head_parser.py`), against request smuggling and cross-site requests.

httptools reads the head; it accepts a request without Host or with several, trailers after the body, and a body after an upgrade
request, which it then takes for the next request. Two servers may read each of these differently, so all are refused.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too
(`web/auth/sites.py`).
"""

from __future__ import annotations

import re
from typing import Final

import httptools

from riata.base.hosts import Hosts
from riata.web.auth.sites import changes_state, is_fetched_here, is_same_origin, names_same_host
from riata.web.server import bounds
from riata.web.server.bounds import Bounds, Refused

HOST_SEEN: Final = 1
LENGTH_SEEN: Final = 2
CODING_SEEN: Final = 4
UPGRADE_SEEN: Final = 8
ORIGIN_SEEN: Final = 16
FOREIGN_SEEN: Final = 32  # sent by a page of another site, according to the browser
CHUNKED: Final = -1  # the length of a body that arrives in chunks
# Headers that determine where a request ends, its host or its origin. All others are ignored here.
WATCHED: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"upgrade", b"origin", b"sec-fetch-site"})
HOST: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?[ \t]*")
LENGTH: Final = re.compile(rb"[0-9]{1,19}[ \t]*")


def check_host(value: bytes, hosts: Hosts | None) -> None:
    """Raise `Refused` unless the value of a Host header is a host, and one of `hosts` if they are limited."""
    if HOST.fullmatch(value) is None:
        raise Refused(bounds.BAD_HOST)
    if hosts is not None and not hosts.answers(value):
        raise Refused(bounds.HOST_NOT_ALLOWED)


class HeadChecker:
    """Checks one request head, which is fed as it arrives. Raises `Refused`.

    complete : whether the end of the head was fed; `length` is then the number of bytes of the body, or CHUNKED
    target   : as far as it was fed
    """

    def __init__(self, limits: Bounds, hosts: Hosts | None) -> None:
        self.bounds = limits
        self.hosts = hosts
        self.fed = 0  # bytes
        self.complete = False
        self.length = 0
        self.target = b""
        self._seen = 0  # flags of the watched headers
        self._lines = self._lines_bytes = 0
        self._host = self._origin = b""
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Check the next part of the head; nothing after the head may be fed."""
        self.fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # an upgrade was requested; answering in HTTP/1.1 is allowed
        except httptools.HttpParserError as error:
            cause = error.__context__
            raise (cause if isinstance(cause, Refused) else Refused(bounds.MALFORMED)) from None

    # -- called by the parser

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check one header line."""
        name = name.lower()
        self._lines += 1
        self._lines_bytes += len(name) + len(value) + len(": \r\n")
        if name in WATCHED:
            self._watched(name, value)

    def on_headers_complete(self) -> None:
        """Check the head as a whole."""
        limits, seen, version = self.bounds, self._seen, self._parser.get_http_version()
        if version != "1.1" and version != "1.0":
            raise Refused(bounds.MALFORMED)
        if not seen & HOST_SEEN and version == "1.1":
            raise Refused(bounds.BAD_HOST)
        if self.target[:1] != b"/":
            self._check_target()
        if seen & (ORIGIN_SEEN | FOREIGN_SEEN) and self.hosts is not None:
            self._check_site()
        if seen & CODING_SEEN and (seen & LENGTH_SEEN or version == "1.0"):
            raise Refused(bounds.BAD_LENGTH if seen & LENGTH_SEEN else bounds.BAD_CODING)
        if seen & UPGRADE_SEEN and seen & (LENGTH_SEEN | CODING_SEEN) and self._parser.should_upgrade():
            raise Refused(bounds.UPGRADE_WITH_BODY)  # the parser would read the body as the next request
        if len(self.target) > limits.target_bytes_max:
            raise Refused(bounds.TARGET_TOO_LONG)
        if self._lines > limits.headers_max or self._lines_bytes > limits.head_bytes_max:
            raise Refused(bounds.HEAD_TOO_LARGE)
        if seen & CODING_SEEN:
            self.length = CHUNKED
        self.complete = True

    # -- the rest

    def _check_target(self) -> None:
        """Check a target that is not a path: an absolute URI, as sent to proxies, or the `*` of OPTIONS."""
        if self.target == b"*":
            return
        if self._seen & HOST_SEEN:
            if not names_same_host(self.target, self._host):
                raise Refused(bounds.BAD_TARGET)
        elif self.hosts is not None:  # HTTP/1.0: only the URI names the host
            raise Refused(bounds.HOST_NOT_ALLOWED)

    def _check_site(self) -> None:
        """Refuse a request of a page of another site that would change state."""
        seen = self._seen
        here = not seen & FOREIGN_SEEN
        if here and seen & ORIGIN_SEEN:
            here = bool(seen & HOST_SEEN) and is_same_origin(self._origin, self._host)
        if not here and changes_state(self._parser.get_method(), self.target):
            raise Refused(bounds.CROSS_SITE)

    def _watched(self, name: bytes, value: bytes) -> None:
        seen = self._seen
        if name == b"host":
            if seen & HOST_SEEN:
                raise Refused(bounds.BAD_HOST)
            check_host(value, self.hosts)
            self._host = value
            self._seen |= HOST_SEEN
        elif name == b"content-length":
            if seen & LENGTH_SEEN or LENGTH.fullmatch(value) is None:
                raise Refused(bounds.BAD_LENGTH)
            self.length = int(value)
            self._seen |= LENGTH_SEEN
        elif name == b"transfer-encoding":
            if seen & CODING_SEEN or value.strip(b" \t").lower() != b"chunked":
                raise Refused(bounds.BAD_CODING)
            self._seen |= CODING_SEEN
        elif name == b"upgrade":
            self._seen |= UPGRADE_SEEN
        elif name == b"sec-fetch-site":
            self._seen |= 0 if is_fetched_here(value) else FOREIGN_SEEN
        else:
            self._seen |= FOREIGN_SEEN if seen & ORIGIN_SEEN else ORIGIN_SEEN
            self._origin = value
