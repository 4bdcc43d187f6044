"""The native head parser, its twin, and the reader of all heads agree."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from riata.web.server.bounds import Refused
from riata.web.server.heads import (
    ACCEPT,
    AUTHORIZATION,
    CONTENT_TYPE,
    HEAD_BYTES_MAX,
    HOST,
    IDEMPOTENCY_KEY,
    IN_GET,
    IN_POST,
    INCOMPLETE,
    IS_POST,
    LENGTH,
    LINES,
    NOT_PLAIN,
    PATH_STOP,
    TARGET,
    TARGET_STOP,
    HeadParser,
    HeadReader,
)
from riata.web.server.heads import HOST_FORM as HOST_VALUE
from tests.settings import connection_bounds
from tests.twins import head_parser as twin

PARSER = HeadParser()
LIMITS = replace(connection_bounds(), head_bytes_max=HEAD_BYTES_MAX)
GET = b"GET /predict?a=1&b=x HTTP/1.1\r\nHost: t:80\r\nAccept: */*\r\ntraceparent: 00-1-2-01\r\n\r\n"
POST = (
    b"POST /models/m/observe HTTP/1.1\r\nhost: [::1]\r\nConnection: Keep-Alive\r\nContent-Type:application/json\r\n"
    b"CONTENT-LENGTH:  7\r\nAuthorization: Bearer a.b\r\nIdempotency-Key: k\r\nX-Empty:\r\n\r\n"
)
HANDED_OUT = {
    b"host": HOST, b"accept": ACCEPT, b"content-type": CONTENT_TYPE, b"authorization": AUTHORIZATION,
    b"idempotency-key": IDEMPOTENCY_KEY,
}  # fmt: skip


def agrees_with_the_reader(data: bytes, end: int) -> None:
    words = PARSER.words()
    host = data[words[HOST] : words[HOST + 1]]
    if HOST_VALUE.fullmatch(host) is None:  # which is checked after the parser
        with pytest.raises(Refused, match="bad_host"):
            HeadReader(LIMITS, None).feed(data)
        return
    request, rest = HeadReader(LIMITS, None).feed(data)
    assert request is not None
    assert rest == data[end:]
    assert request.method == ("POST" if words[IS_POST] else "GET")
    assert (request.version, request.keep_alive) == ("1.1", True)
    assert request.path == data[words[TARGET] : words[PATH_STOP]]
    assert request.query == data[words[PATH_STOP] + 1 : words[TARGET_STOP]]
    assert request.length == max(words[LENGTH], 0)
    assert len(request.headers) == words[LINES]
    for name, word in HANDED_OUT.items():
        values = [value for found, value in request.headers if found == name]
        assert values == ([] if words[word] < 0 else [data[words[word] : words[word + 1]]])
    found = PARSER.read(data, HeadReader(LIMITS, None))
    if len(rest) < request.length:
        assert found is None
    else:
        assert found is not None
        plain, rest_of_plain = found
        assert (plain.method, plain.path, plain.query, plain.version) == (request.method, request.path, request.query, "1.1")
        assert (plain.length, plain.keep_alive, rest_of_plain) == (request.length, True, rest)
        names = dict(IN_POST if plain.method == "POST" else IN_GET)
        assert plain.values == {name: value for name, value in request.values.items() if name in names}
    assert not {b"transfer-encoding", b"content-encoding", b"upgrade", b"expect", b"origin"} & set(request.values)


def same_as_twin(data: bytes) -> int:
    """Compare with the twin; returns the result. An incomplete head may be found not to be plain before its end arrives."""
    found = PARSER.parse(data)
    end, words = twin.parse_head(data)
    if words is None:
        assert found in ((end,) if end == NOT_PLAIN else (INCOMPLETE, NOT_PLAIN)), data
    else:
        assert (found, list(PARSER.words())) == (end, words), data
        agrees_with_the_reader(data, found)
    return found


@pytest.mark.parametrize("head", [GET, POST])
@pytest.mark.parametrize("after", [b"", b"{}body\r\n\r\n", GET])
def test_plain_heads_are_read(head: bytes, after: bytes) -> None:
    assert same_as_twin(head + after) == len(head)


@pytest.mark.parametrize("head", [GET, POST])
def test_a_head_is_incomplete_until_its_last_byte(head: bytes) -> None:
    assert {PARSER.parse(head[:size]) for size in range(len(head))} == {INCOMPLETE}


@pytest.mark.parametrize("bound", ["target_bytes_max", "head_bytes_max", "headers_max"])
def test_a_head_beyond_a_bound_is_left_to_the_reader(bound: str) -> None:
    sizes = {
        "target_bytes_max": len(b"/predict?a=1&b=x"),
        "head_bytes_max": GET.index(b"\r\n\r\n") - GET.index(b"Host"),
        "headers_max": 3,
    }
    for more, is_read in ((2, True), (-1, False)):
        heads = HeadReader(replace(LIMITS, **{bound: sizes[bound] + more}), None)
        assert (PARSER.read(GET, heads) is not None) is is_read


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
        POST.replace(b"CONTENT-LENGTH:  7", b"Transfer-Encoding: chunked"),
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
def test_heads_that_are_not_plain_are_left(head: bytes) -> None:
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


def test_mutated_heads_are_read_as_the_twin_and_the_reader_read_them() -> None:
    chance, accepted = random.Random(7), 0
    for _ in range(30_000):
        head = bytearray(chance.choice((GET, POST)))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(head) + 1)
            head[at : at + chance.choice((0, 0, 1, 1, 2, 12))] = chance.choice(PIECES)
        accepted += same_as_twin(bytes(head)) > 0
    assert accepted > 3000
