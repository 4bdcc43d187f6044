"""Heads of requests: parsed, checked against request smuggling and cross-site requests, and made a `Request`.

`service/native/head.c` parses every head. It accepts what can be read in one way only: a method in capitals, a target in visible
ASCII, HTTP/1.0 or 1.1, lines that end in CRLF, none of them folded, names of token characters, values without control characters,
at most one Content-Length, in digits, and no Transfer-Encoding beside it. Most requests are usual: GET or POST of a path, with
exactly one Host, and no header that changes how a message is read or says where it came from. Only the others need all headers.

If keys are not required, state-changing requests that pages of other sites make a browser send are refused here too.
"""

from __future__ import annotations

import re
import struct
import time
from typing import Final
from urllib.parse import unquote

import numpy as np

from riata.base.hosts import Hosts, host_in
from riata.native.library import address, core
from riata.web.api.routes.table import ROUTE_AT, place
from riata.web.server import bounds
from riata.web.server.bounds import Bounds, Refused
from riata.web.server.request import CHUNKED, Headers, Request, headers_of

MALFORMED: Final = 0  # results of `parse_head` other than the bytes of the head
INCOMPLETE: Final = -1
# Its words. Of each header that is handed out: offset of its value and of the end; -1 and -1 if it was not sent.
IS_USUAL, METHOD_STOP, TARGET_STOP, PATH_STOP, MINOR, LENGTH, LINES_BYTES, LINES = range(8)
HOST, ACCEPT, CONTENT_TYPE, AUTHORIZATION, IDEMPOTENCY_KEY = range(8, 18, 2)
WORDS: Final = 18
VERSION_BYTES: Final = len(b" HTTP/1.1\r\n")  # from the end of the target to the first header line
IN_GET: Final = ((b"authorization", AUTHORIZATION),)  # headers that hot routes look at
IN_POST: Final = (*IN_GET, (b"accept", ACCEPT), (b"content-type", CONTENT_TYPE), (b"idempotency-key", IDEMPOTENCY_KEY))
LEFT: Final = frozenset({b"content-encoding", b"expect"})  # headers whose meaning only ASGI routes know

HOST_FORM: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{0,5})?")

HERE: Final = frozenset({b"same-origin", b"none"})  # a page of this service; or no page: a typed address or a bookmark
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

ORIGIN: Final = re.compile(rb"(https?)://([^/?#@]+)", re.IGNORECASE)
PORTS: Final = {b"http": "80", b"https": "443"}

_unpack: Final = struct.Struct(f"{WORDS}q").unpack
Words = tuple[int, ...]


class HeadReader:
    """Reads the heads of the requests of one connection, one after the other, as they arrive. Raises `Refused`."""

    def __init__(self, limits: Bounds, hosts: Hosts | None) -> None:
        self._limits = limits
        self._hosts = hosts
        self._host: bytes | None = None  # the last one that was accepted: a connection sends the same every time
        words = np.zeros(WORDS, np.int64)
        self._words, self._words_at = words.data, address(words)
        self._head = b""  # what has arrived of an incomplete one
        self._parsed = 0  # bytes of it that were parsed

    @property
    def has_begun(self) -> bool:
        """Whether a part of a head has arrived."""
        return bool(self._head)

    def feed(self, data: bytes) -> tuple[Request | None, bytes]:
        """Read the next bytes. Returns the request if its head is complete, and the bytes that follow the head."""
        if self._head:
            self._head += data
            if b"\n" not in data and len(self._head) < 2 * self._parsed:  # a client that sends byte by byte costs no more
                return None, b""
            data = self._head
        else:
            data = data.lstrip(b"\r\n")
        end: int = core.parse_head(data, len(data), self._words_at)
        words, limits = _unpack(self._words), self._limits
        if end == MALFORMED:
            raise Refused(bounds.MALFORMED)
        if words[TARGET_STOP] - words[METHOD_STOP] > limits.target_bytes_max + 1:
            raise Refused(bounds.TARGET_TOO_LONG)
        if words[LINES_BYTES] > limits.head_bytes_max or words[LINES] > limits.headers_max:
            raise Refused(bounds.HEAD_TOO_LARGE)
        if end == INCOMPLETE:
            self._head, self._parsed = data, len(data)
            return None, b""
        self._head = b""
        return (self._usual(data, words, end) if words[IS_USUAL] else self._other(data, words, end)), data[end:]

    def _usual(self, data: bytes, words: Words, end: int) -> Request:
        """Make a usual request. Of its headers, `values` has those that hot routes look at."""
        self._check_host(data[words[HOST] : words[HOST + 1]])
        method_stop, path_stop, stop = words[METHOD_STOP], words[PATH_STOP], words[TARGET_STOP]
        method, names = ("POST", IN_POST) if method_stop == len("POST") else ("GET", IN_GET)
        values = {name: data[words[word] : words[word + 1]] for name, word in names if words[word] > 0}
        path, query, lines = data[method_stop + 1 : path_stop], data[path_stop + 1 : stop], data[stop + VERSION_BYTES : end]
        return Request(method, path, query, lines, values, time.perf_counter(), "1.1", max(words[LENGTH], 0))

    def _other(self, data: bytes, words: Words, end: int) -> Request:
        """Check any other head, and make its request."""
        method, stop = data[: words[METHOD_STOP]].decode(), words[TARGET_STOP]
        target, lines = data[len(method) + 1 : stop], data[stop + VERSION_BYTES : end]
        version = "1.1" if words[MINOR] else "1.0"
        headers = headers_of(lines)
        values = dict(headers)
        host = values.get(b"host")
        if len(values_of(headers, b"host")) > 1 or (host is None and version == "1.1"):
            raise Refused(bounds.BAD_HOST)
        if host is not None:
            self._check_host(host)
        if target[:1] != b"/":
            check_target(target, host, self._hosts)
        path, query = path_and_query(target)
        if self._hosts is not None:
            check_site(method, path, headers, host)
        length = length_of(words[LENGTH], values, version)
        options = {option.strip(b" \t") for value in values_of(headers, b"connection") for option in value.lower().split(b",")}
        if b"upgrade" in options and b"upgrade" in values and (length or b"content-length" in values):
            raise Refused(bounds.UPGRADE_WITH_BODY)  # another server may take the body for the next request
        keep_alive = version == "1.1" and b"close" not in options
        may_be_hot = len(values) == len(headers) and LEFT.isdisjoint(values) and (not length or method == "POST")
        return Request(method, path, query, lines, values, time.perf_counter(), version, length, keep_alive, may_be_hot)

    def _check_host(self, host: bytes) -> None:
        """Raise `Refused` unless the value of a Host header is a host, and one of those allowed if they are limited."""
        if host != self._host:
            if HOST_FORM.fullmatch(host) is None:
                raise Refused(bounds.BAD_HOST)
            if self._hosts is not None and not self._hosts.answers(host):
                raise Refused(bounds.HOST_NOT_ALLOWED)
            self._host = host


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of a header, in their order."""
    return [value for found, value in headers if found == name]


def check_target(target: bytes, host: bytes | None, hosts: Hosts | None) -> None:
    """Raise `Refused` for a target that is neither a path, nor an absolute URI of this host, as sent to proxies, nor `*`."""
    if target == b"*":
        return
    if host is not None:
        if not names_same_host(target, host):
            raise Refused(bounds.BAD_TARGET)
    elif hosts is not None:  # HTTP/1.0: only the URI names the host
        raise Refused(bounds.HOST_NOT_ALLOWED)


def length_of(announced: int, values: dict[bytes, bytes], version: str) -> int:
    """Return the bytes of the body, or CHUNKED. announced : by Content-Length, -1 if it was not sent. Raises `Refused`."""
    coding = values.get(b"transfer-encoding")
    if coding is None:
        return max(announced, 0)
    if version == "1.0" or coding.lower() != b"chunked":
        raise Refused(bounds.BAD_CODING)
    return CHUNKED


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a target as they were sent. Raises `Refused` if it is no address."""
    if target[:1] != b"/" and target != b"*":
        found = ORIGIN.match(target)
        if found is None:
            raise Refused(bounds.MALFORMED)
        target = target[found.end() :]
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path or b"/", query


# Detection of cross-site requests (CSRF): requests that a page of another site makes a browser send.
#
# A browser sends `Sec-Fetch-Site` to addresses that it trusts (https, loopback), and `Origin` with every request other than a
# plain GET or HEAD. Programs send neither. A page cannot set or remove them. Both are needed: older browsers and plain http
# beyond the loopback send only `Origin`, an image sends only `Sec-Fetch-Site`.
#
# Requests that change nothing are answered, since a browser does not let a page of another site read the answer.


def check_site(method: str, path: bytes, headers: Headers, host: bytes | None) -> None:
    """Raise `Refused` if a page of another site made a browser send a request that would change state."""
    sites, origins = values_of(headers, b"sec-fetch-site"), values_of(headers, b"origin")
    here = all(map(is_fetched_here, sites)) and len(origins) < 2
    if here and origins:
        here = host is not None and is_same_origin(origins[0], host)
    if not here and changes_state(method, path):
        raise Refused(bounds.CROSS_SITE)


def is_fetched_here(fetch_site: bytes) -> bool:
    """Return whether a Sec-Fetch-Site header says that no page of another origin sent the request."""
    return fetch_site.lower() in HERE


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """Return whether an Origin header names the host itself. `null`, a page without an origin, does not."""
    found = ORIGIN.fullmatch(origin)
    return found is not None and _is_at(found[1], found[2], host)


def names_same_host(target: bytes, host: bytes) -> bool:
    """Return whether an absolute URI names the same host and port as the Host header."""
    found = ORIGIN.match(target)
    rest = b"" if found is None else target[found.end() :]
    return found is not None and rest[:1] in (b"", b"/", b"?") and _is_at(found[1], found[2], host)


def changes_state(method: str, path: bytes) -> bool:
    """Return whether a request would change state or write to the store."""
    if method not in SAFE:
        return True
    route = ROUTE_AT.get(("GET", place(unquote(path.decode("latin-1")))[0]))
    return route is not None and route.writes


def _is_at(scheme: bytes, authority: bytes, host: bytes) -> bool:
    default = PORTS[scheme.lower()]
    return _place(authority, default) == _place(host, default)


def _place(authority: bytes, default: str) -> tuple[str, str]:
    text = authority.decode("latin-1").lower()
    host = host_in(text)
    return host, text[len(host) :].lstrip(":") or default
