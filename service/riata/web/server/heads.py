"""Heads of requests: read by httptools, checked against request smuggling and cross-site requests, and made a `Request`.

httptools accepts a request without Host or with several, trailers after the body, and a body after an upgrade request, which it
then takes for the next request. Two servers may read each of these differently, so all are refused.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too.
"""

from __future__ import annotations

import re
import time
from typing import Final
from urllib.parse import unquote

import httptools

from riata.base.hosts import Hosts, host_in
from riata.web.api.routes.table import ROUTE_AT, place
from riata.web.server import bounds
from riata.web.server.bounds import Bounds, Refused
from riata.web.server.request import CHUNKED, Request

HEAD_END: Final = b"\r\n\r\n"
FIRST_LINE_BYTES: Final = 20  # of a request line without its target, and of the empty line at the end

HOST: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?[ \t]*")
LENGTH: Final = re.compile(rb"[0-9]{1,19}[ \t]*")
ONCE: Final = {b"host": bounds.BAD_HOST, b"content-length": bounds.BAD_LENGTH, b"transfer-encoding": bounds.BAD_CODING}

HERE: Final = frozenset({b"same-origin", b"none"})  # a page of this service; or no page: a typed address or a bookmark
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

ORIGIN: Final = re.compile(rb"(https?)://([^/?#@]+)", re.IGNORECASE)
PORTS: Final = {b"http": "80", b"https": "443"}


class HeadReader:
    """Reads the heads of the requests of one connection, one after the other, as they arrive. Raises `Refused`."""

    def __init__(self, limits: Bounds, hosts: Hosts | None) -> None:
        self.limits = limits
        self._hosts = hosts
        self._host: bytes | None = None  # the last one that was accepted: a connection sends the same every time
        self._parser = httptools.HttpRequestParser(self)
        self._size = 0  # bytes of the head so far
        self._last = b""  # the last of them, which may belong to its end
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._request: Request | None = None  # once the head is complete

    @property
    def has_begun(self) -> bool:
        """Whether a part of a head has arrived."""
        return self._size > 0

    def feed(self, data: bytes) -> tuple[Request | None, bytes]:
        """Read the next bytes. Returns the request if its head is complete, and the bytes that follow the head."""
        if not self._size:
            data = data.lstrip(b"\r\n")
        end = (self._last + data).find(HEAD_END)
        stop = len(data) if end < 0 else end + len(HEAD_END) - len(self._last)
        self._size += stop
        try:
            self._parser.feed_data(data if stop == len(data) else data[:stop])
        except httptools.HttpParserUpgrade:
            pass  # an upgrade was requested; answering in HTTP/1.1 is allowed
        except httptools.HttpParserError as error:
            cause = error.__context__
            raise (cause if isinstance(cause, Refused) else Refused(bounds.MALFORMED)) from None
        request, target = self._request, len(self._target)
        if target > self.limits.target_bytes_max:
            raise Refused(bounds.TARGET_TOO_LONG)
        lines_bytes = self._size - target - FIRST_LINE_BYTES
        if lines_bytes > self.limits.head_bytes_max or len(self._headers) > self.limits.headers_max:
            raise Refused(bounds.HEAD_TOO_LARGE)
        if request is None:
            if end >= 0:  # the preface of HTTP/2
                raise Refused(bounds.MALFORMED)
            self._last = (self._last + data)[-len(HEAD_END) + 1 :]
            return None, b""
        if request.length or self._parser.should_upgrade():  # what follows is not for this parser
            self._parser = httptools.HttpRequestParser(self)
        self._size, self._headers, self._request = 0, [], None
        self._last = self._target = b""
        return request, data[stop:]

    def check_host(self, host: bytes) -> None:
        """Raise `Refused` unless the value of a Host header is a host, and one of those allowed if they are limited."""
        if host != self._host:
            if HOST.fullmatch(host) is None:
                raise Refused(bounds.BAD_HOST)
            if self._hosts is not None and not self._hosts.answers(host):
                raise Refused(bounds.HOST_NOT_ALLOWED)
            self._host = host

    def close(self) -> None:
        """Drop the parser, which holds this object."""
        del self._parser

    # -- called by the parser

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header line."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head, and make its request."""
        target, headers, parser = self._target, self._headers, self._parser
        values, version = dict(headers), parser.get_http_version()
        if version != "1.1" and version != "1.0":
            raise Refused(bounds.MALFORMED)
        if len(values) != len(headers):
            check_once(headers)
        host = values.get(b"host")
        if host is not None:
            self.check_host(host)
        elif version == "1.1":
            raise Refused(bounds.BAD_HOST)
        method = parser.get_method().decode()
        if target[:1] != b"/":
            check_target(target, host, self._hosts)
        if self._hosts is not None and (b"origin" in values or b"sec-fetch-site" in values):
            check_site(method, target, headers, host)
        length = length_of(values, version)
        if b"upgrade" in values and (length or b"content-length" in values) and parser.should_upgrade():
            raise Refused(bounds.UPGRADE_WITH_BODY)  # the parser would read the body as the next request
        path, query = path_and_query(target)
        keep_alive = version == "1.1" and parser.should_keep_alive()
        self._request = Request(method, path, query, headers, values, time.perf_counter(), version, length, keep_alive)


def check_once(headers: list[tuple[bytes, bytes]]) -> None:
    """Raise `Refused` if a header that says what the request is was sent twice."""
    names = [name for name, _ in headers]
    for name, answer in ONCE.items():
        if names.count(name) > 1:
            raise Refused(answer)


def check_target(target: bytes, host: bytes | None, hosts: Hosts | None) -> None:
    """Raise `Refused` for a target that is neither a path, nor an absolute URI of this host, as sent to proxies, nor `*`."""
    if target == b"*":
        return
    if host is not None:
        if not names_same_host(target, host):
            raise Refused(bounds.BAD_TARGET)
    elif hosts is not None:  # HTTP/1.0: only the URI names the host
        raise Refused(bounds.HOST_NOT_ALLOWED)


def length_of(values: dict[bytes, bytes], version: str) -> int:
    """Return the bytes of the body, or CHUNKED. Raises `Refused` if its end cannot be known, or could be read in two ways."""
    length, coding = values.get(b"content-length"), values.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise Refused(bounds.BAD_LENGTH)
        if version == "1.0" or coding.strip(b" \t").lower() != b"chunked":
            raise Refused(bounds.BAD_CODING)
        return CHUNKED
    if length is None:
        return 0
    if LENGTH.fullmatch(length) is None:
        raise Refused(bounds.BAD_LENGTH)
    return int(length)


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a target as they were sent. Raises an error of httptools if it is no address."""
    if target[:1] == b"/" and b"#" not in target:
        path, _, query = target.partition(b"?")
        return path, query
    url = httptools.parse_url(target)
    return url.path or b"/", url.query or b""


# Detection of cross-site requests (CSRF): requests that a page of another site makes a browser send.
#
# A browser sends `Sec-Fetch-Site` to addresses that it trusts (https, loopback), and `Origin` with every request other than a
# plain GET or HEAD. Programs send neither. A page cannot set or remove them. Both are needed: older browsers and plain http
# beyond the loopback send only `Origin`, an image sends only `Sec-Fetch-Site`.
#
# Requests that change nothing are answered, since a browser does not let a page of another site read the answer.


def check_site(method: str, target: bytes, headers: list[tuple[bytes, bytes]], host: bytes | None) -> None:
    """Raise `Refused` if a page of another site made a browser send a request that would change state."""
    sites = [value for name, value in headers if name == b"sec-fetch-site"]
    origins = [value for name, value in headers if name == b"origin"]
    here = all(map(is_fetched_here, sites)) and len(origins) < 2
    if here and origins:
        here = host is not None and is_same_origin(origins[0], host)
    if not here and changes_state(method, target):
        raise Refused(bounds.CROSS_SITE)


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


def changes_state(method: str, target: bytes) -> bool:
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
