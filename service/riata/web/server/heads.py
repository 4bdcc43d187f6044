"""Heads of requests: parsed, checked against request smuggling and cross-site requests, and made a `Request`.

httptools accepts a request without Host or with several, trailers after the body, and a body after an upgrade request, which it
then takes for the next request. Two servers may read each of these differently, so all are refused.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too.
"""

from __future__ import annotations

import re
import struct
import time
from typing import Final
from urllib.parse import unquote

import httptools
import numpy as np

from riata.base.hosts import Hosts, host_in
from riata.native.library import core
from riata.web.api.routes.table import ROUTE_AT, place
from riata.web.server import bounds
from riata.web.server.bounds import Bounds, Refused
from riata.web.server.request import CHUNKED, Request

HEAD_END: Final = b"\r\n\r\n"
FIRST_LINE_BYTES: Final = 20  # of a request line without its target, and of the empty line at the end

HOST_FORM: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?[ \t]*")
LENGTH_FORM: Final = re.compile(rb"[0-9]{1,19}[ \t]*")
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
            if HOST_FORM.fullmatch(host) is None:
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
    if LENGTH_FORM.fullmatch(length) is None:
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


# Plain heads, of requests to hot routes. `service/native/head.c` accepts only heads that can be read in one way: GET or POST, a
# path in visible ASCII, `HTTP/1.1`, lines that end in CRLF, names of token characters, values of visible ASCII, spaces and tabs,
# exactly one Host, and no header that changes how a message is read or that identifies its origin (Transfer-Encoding,
# Content-Encoding, Expect, Upgrade, Origin, Sec-Fetch-Site, a Connection other than keep-alive, Proxy-Connection). `HeadReader`
# reads them as the same requests, and all others.

NOT_PLAIN: Final = 0  # result of `HeadParser.parse`: `HeadReader` has to read the head
INCOMPLETE: Final = -1  # its end has not arrived; as far as it has, it is plain
HEAD_BYTES_MAX: Final = 96 * 2**10  # of a whole head; longer ones are not plain
SHORT_BYTES: Final = 2 * 2**10  # copied first: most heads are shorter
# Words of the result. Of each header that is handed out: offset of its value and of the end; -1 and -1 if it was not sent.
IS_POST, TARGET, PATH_STOP, TARGET_STOP, LENGTH, LINES_BYTES, LINES = range(7)
HOST, ACCEPT, CONTENT_TYPE, AUTHORIZATION, IDEMPOTENCY_KEY = range(7, 17, 2)
WORDS: Final = 17
IN_GET: Final = ((b"authorization", AUTHORIZATION),)  # headers that hot routes look at
IN_POST: Final = (*IN_GET, (b"accept", ACCEPT), (b"content-type", CONTENT_TYPE), (b"idempotency-key", IDEMPOTENCY_KEY))

Words = tuple[int, ...]


class HeadParser:
    """The memory in which one thread parses plain heads. After `parse`, `words` are the words of the head (see the constants)."""

    def __init__(self) -> None:
        self._room, self._found = np.zeros(HEAD_BYTES_MAX, np.uint8), np.zeros(WORDS, np.int64)
        self._bytes, self._words = memoryview(self._room.data), memoryview(self._found.data)
        self._at, self._found_at = int(self._room.ctypes.data), int(self._found.ctypes.data)
        self._unpack = struct.Struct(f"{WORDS}q").unpack

    def parse(self, data: bytes) -> int:
        """Parse the head with which `data` begins: its bytes with the empty line at its end, NOT_PLAIN, or INCOMPLETE.

        An incomplete head of more than HEAD_BYTES_MAX is NOT_PLAIN.
        """
        size = len(data)
        if size > SHORT_BYTES:
            self._bytes[:SHORT_BYTES] = data[:SHORT_BYTES]
            found: int = core.parse_head(self._at, SHORT_BYTES, self._found_at)
            if found != INCOMPLETE:
                return found
            if size > HEAD_BYTES_MAX:
                size, data = HEAD_BYTES_MAX, data[:HEAD_BYTES_MAX]
        self._bytes[:size] = data
        found = core.parse_head(self._at, size, self._found_at)
        return NOT_PLAIN if found == INCOMPLETE and size == HEAD_BYTES_MAX else found

    def words(self) -> Words:
        """Return the words of the head that was parsed last."""
        return self._unpack(self._words)

    def read(self, data: bytes, heads: HeadReader) -> tuple[Request, bytes] | None:
        """Return the request with which `data` begins, and what follows its head. It has the headers that hot routes look at.

        None if the head is not plain or too long, or the body has not arrived: `heads` has to read it. Raises `Refused`.
        """
        end = self.parse(data)
        if end <= 0:
            return None
        words, limits = self.words(), heads.limits
        target, path_stop, stop, length = words[TARGET], words[PATH_STOP], words[TARGET_STOP], max(words[LENGTH], 0)
        if (
            len(data) < end + length
            or stop - target > limits.target_bytes_max
            or words[LINES_BYTES] > limits.head_bytes_max
            or words[LINES] > limits.headers_max
        ):
            return None
        heads.check_host(data[words[HOST] : words[HOST + 1]])
        method, names = ("POST", IN_POST) if words[IS_POST] else ("GET", IN_GET)
        values = {name: data[words[word] : words[word + 1]] for name, word in names if words[word] > 0}
        query = data[path_stop + 1 : stop]
        return Request(method, data[target:path_stop], query, [], values, time.perf_counter(), "1.1", length), data[end:]
