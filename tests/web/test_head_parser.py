"""The native head parser, its twin, and httptools agree."""

from __future__ import annotations

import random

import httptools
import pytest

from riata.web.server.head_parser import (
    ACCEPT,
    AUTHORIZATION,
    CONTENT_TYPE,
    HEAD_BYTES_MAX,
    HOST,
    IDEMPOTENCY_KEY,
    IN_CHUNKS,
    INCOMPLETE,
    IS_POST,
    LENGTH,
    NOT_PLAIN,
    PATH_STOP,
    TARGET,
    TARGET_STOP,
    HeadParser,
)
from tests.twins import head_parser as twin

PARSER = HeadParser()
GET = b"GET /predict?a=1&b=x HTTP/1.1\r\nHost: t:80\r\nAccept: */*\r\ntraceparent: 00-1-2-01\r\n\r\n"
POST = (
    b"POST /models/m/observe HTTP/1.1\r\nhost: [::1]\r\nConnection: Keep-Alive\r\nContent-Type:application/json\r\n"
    b"CONTENT-LENGTH:  7\r\nAuthorization: Bearer a.b\r\nIdempotency-Key: k\r\nX-Empty:\r\n\r\n"
)
IN_PARTS = POST.replace(b"CONTENT-LENGTH:  7", b"Transfer-Encoding: Chunked")
HANDED_OUT = {
    b"host": HOST, b"accept": ACCEPT, b"content-type": CONTENT_TYPE, b"authorization": AUTHORIZATION,
    b"idempotency-key": IDEMPOTENCY_KEY,
}  # fmt: skip


class Seen:
    """A head as httptools reads it."""

    def __init__(self, data: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.url = b""
        self.complete = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.complete = True


def agrees_with_httptools(data: bytes, end: int) -> None:
    words, seen = PARSER.words(), Seen(data[:end])
    assert seen.complete
    assert seen.parser.get_method() == (b"POST" if words[IS_POST] else b"GET")
    assert seen.parser.get_http_version() == "1.1"
    assert seen.parser.should_keep_alive()
    assert not seen.parser.should_upgrade()
    assert seen.url == data[words[TARGET] : words[TARGET_STOP]]
    url = httptools.parse_url(seen.url)
    assert url.path == data[words[TARGET] : words[PATH_STOP]]
    assert (url.query or b"") == data[words[PATH_STOP] + 1 : words[TARGET_STOP]]
    for name, word in HANDED_OUT.items():
        values = [value for found, value in seen.headers if found == name]
        assert values == ([] if words[word] < 0 else [data[words[word] : words[word + 1]]])
    lengths = [int(value) for name, value in seen.headers if name == b"content-length"]
    assert lengths == ([] if words[LENGTH] < 0 else [words[LENGTH]])
    codings = [value.lower() for name, value in seen.headers if name == b"transfer-encoding"]
    assert codings == ([b"chunked"] if words[LENGTH] == IN_CHUNKS else [])
    assert not {b"upgrade", b"expect", b"origin"} & {name for name, _ in seen.headers}


def same_as_twin(data: bytes) -> int:
    """Compare with the twin; returns the result. An incomplete head may be found not to be plain before its end arrives."""
    found = PARSER.parse(data)
    end, words = twin.parse_head(data)
    if words is None:
        assert found in ((end,) if end == NOT_PLAIN else (INCOMPLETE, NOT_PLAIN)), data
    else:
        assert (found, list(PARSER.words())) == (end, words), data
        agrees_with_httptools(data, found)
    return found


@pytest.mark.parametrize("head", [GET, POST, IN_PARTS])
@pytest.mark.parametrize("after", [b"", b"{}body\r\n\r\n", GET])
def test_plain_heads_are_read(head: bytes, after: bytes) -> None:
    assert same_as_twin(head + after) == len(head)


@pytest.mark.parametrize("head", [GET, POST])
def test_a_head_is_incomplete_until_its_last_byte(head: bytes) -> None:
    assert {PARSER.parse(head[:size]) for size in range(len(head))} == {INCOMPLETE}


def line(text: bytes) -> bytes:
    return GET.replace(b"Accept: */*", text)


@pytest.mark.parametrize(
    "head",
    [
        GET.replace(b"GET", b"get"),
        GET.replace(b"GET", b"PUT"),
        GET.replace(b"GET ", b"GET  "),
        GET.replace(b"/predict", b"http://t/predict"),
        GET.replace(b"/predict", b"*"),
        GET.replace(b"a=1", b"a=1#b"),
        GET.replace(b"a=1", b"a=\xc3\xa9"),
        GET.replace(b"1.1", b"1.0"),
        GET.replace(b"Host: t:80\r\n", b""),
        GET.replace(b"\r\n", b"\n"),
        GET.replace(b"*/*\r\n", b"*/*\n"),
        b"\r\n" + GET,
        line(b"Host: t"),
        line(b"Content-Length: 1"),
        line(b"Content-Length: +0"),
        line(b"Content-Length: 0, 0"),
        line(b"Content-Length:"),
        line(b"Content-Length: " + b"1" * 19),
        POST.replace(b"CONTENT-LENGTH:  7", b"Content-Length: " + b"1" * 19),
        line(b"Transfer-Encoding: chunked"),
        IN_PARTS.replace(b"Chunked", b"chunked, gzip"),
        IN_PARTS.replace(b"X-Empty:", b"Content-Length: 0"),
        IN_PARTS.replace(b"X-Empty:", b"Transfer-Encoding: chunked"),
        line(b"Content-Encoding: gzip"),
        line(b"Connection: close"),
        line(b"Connection: keep-alive, upgrade"),
        line(b"Expect: 100-continue"),
        line(b"Upgrade: h2c"),
        line(b"Origin: http://t"),
        line(b"Sec-Fetch-Site: none"),
        line(b"Proxy-Connection: close"),  # which httptools takes for Connection
        line(b"Accept : */*"),
        line(b": a"),
        line(b"Accept"),
        line(b"X: a\r\n b"),
        line(b"X: a\0"),
        line(b"X: \x80"),
        line(b"X: a\rb"),
        line(b"Accept: a "),
        line(b"Accept: a\r\nACCEPT: b"),
    ],
)
def test_heads_that_are_not_plain_are_left_to_httptools(head: bytes) -> None:
    assert same_as_twin(head) == NOT_PLAIN


def test_long_heads_are_read_up_to_the_room_there_is() -> None:
    for size in (1900, 2047, 2048, 2049, 3000, 50_000):
        assert same_as_twin(line(b"X: " + b"x" * size)) > size
    assert PARSER.parse(line(b"X: " + b"x" * HEAD_BYTES_MAX)) == NOT_PLAIN


PIECES = [
    b"\r\n", b"\r", b"\n", b" ", b"\t", b":", b"Host: t\r\n", b"host", b"Content-Length: 3\r\n", b"content-length", b"0", b"9",
    b"Connection: keep-alive\r\n", b"close", b"\0", b"\x7f", b"\x80", b"?", b"#", b"/", b"HTTP/1.1", b"GET ", b"POST ", b"a",
    b"A: b\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n", b",", b"Accept: a\r\n", b"Idempotency-Key: k\r\n", b"\x0b", b"{",
]  # fmt: skip


def test_mutated_heads_are_read_as_the_twin_and_httptools_read_them() -> None:
    chance, accepted = random.Random(7), 0
    for _ in range(30_000):
        head = bytearray(chance.choice((GET, POST, IN_PARTS)))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(head) + 1)
            head[at : at + chance.choice((0, 0, 1, 1, 2, 12))] = chance.choice(PIECES)
        accepted += same_as_twin(bytes(head)) > 0
    assert accepted > 3000
