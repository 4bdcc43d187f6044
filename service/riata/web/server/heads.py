"""Validation of request heads that are not plain (`head_parser.py`), against request smuggling and cross-site requests.

httptools reads the head; it accepts a request without Host or with several, trailers after the body, and a body after an upgrade
request, which it then takes for the next request. Two servers may read each of these differently, so all are refused.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too
(`web/server/heads.py`).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import httptools

from riata.base.hosts import Hosts, host_in
from riata.web.api.routes.table import ROUTE_AT, place
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

HERE: Final = frozenset({b"same-origin", b"none"})  # a page of this service; or no page: a typed address or a bookmark
SAFE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})

ORIGIN: Final = re.compile(rb"(https?)://([^/?#@]+)", re.IGNORECASE)
PORTS: Final = {b"http": "80", b"https": "443"}


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


# Detection of cross-site requests (CSRF): requests that a page of another site makes a browser send.
#
# A browser sends `Sec-Fetch-Site` to addresses that it trusts (https, loopback), and `Origin` with every request other than a
# plain GET or HEAD. Programs send neither. A page cannot set or remove them. Both are needed: older browsers and plain http
# beyond the loopback send only `Origin`, an image sends only `Sec-Fetch-Site`.
#
# Requests that change nothing are answered, since a browser does not let a page of another site read the answer.


def is_fetched_here(fetch_site: bytes) -> bool:
    """Return whether a Sec-Fetch-Site header says that no page of another origin sent the request."""
    return fetch_site.strip(b" \t").lower() in HERE


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """Return whether an Origin header names the host itself. `null`, a page without an origin, does not."""
    found = ORIGIN.fullmatch(origin.strip(b" \t"))
    return found is not None and _is_at(found[1], found[2], host)


def names_same_host(target: bytes, host: bytes) -> bool:
    """Return whether an absolute URI names the same host and port as the Host header."""
    found = ORIGIN.match(target)
    rest = b"" if found is None else target[found.end() :]
    return found is not None and rest[:1] in (b"", b"/", b"?") and _is_at(found[1], found[2], host)


def changes_state(method: bytes, target: bytes) -> bool:
    """Return whether a request would change state or write to the store."""
    if method not in SAFE:
        return True
    path = httptools.parse_url(target).path or b""
    route = ROUTE_AT.get(("GET", place(unquote(path.decode("latin-1")))[0]))
    return route is not None and route.writes


def _is_at(scheme: bytes, authority: bytes, host: bytes) -> bool:
    default = PORTS[scheme.lower()]
    return _place(authority, default) == _place(host, default)


def _place(authority: bytes, default: str) -> tuple[str, str]:
    text = authority.decode("latin-1").strip(" \t").lower()
    host = host_in(text)
    return host, text[len(host) :].lstrip(":") or default
