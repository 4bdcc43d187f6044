"""The native parser of heads and its twin agree, and a usual head is read as the reader reads it with all its headers."""

from __future__ import annotations

import random
from ctypes import addressof, c_int64
from dataclasses import replace

import pytest

from riata.native.library import core
from riata.web.server import bounds
from riata.web.server.bounds import Refused
from riata.web.server.heads import IN_GET, IN_POST, INCOMPLETE, IS_USUAL, MALFORMED, WORDS, HeadReader
from riata.web.server.request import Request
from tests.settings import connection_bounds
from tests.twins import head_parser as twin

LIMITS = replace(connection_bounds(), head_bytes_max=2**20)
FOUND = (c_int64 * WORDS)()
GET = b"GET /predict?a=1&b=x HTTP/1.1\r\nHost: t:80\r\nAccept: */*\r\ntraceparent: 00-1-2-01\r\n\r\n"
POST = (
    b"POST /models/m/observe HTTP/1.1\r\nhost: [::1]\r\nConnection: Keep-Alive\r\nContent-Type:application/json\r\n"
    b"CONTENT-LENGTH:  7\r\nAuthorization: Bearer a.b\r\nIdempotency-Key: k\r\nX-Empty:\r\n\r\n"
)


def parse(data: bytes) -> int:
    found: int = core.parse_head(data, len(data), addressof(FOUND))
    return found


def read(data: bytes) -> tuple[Request | None, bytes] | bounds.Refusal:
    try:
        return HeadReader(LIMITS, None).feed(data)
    except Refused as refused:
        return refused.answer


def is_read_alike_with_all_headers(data: bytes, end: int) -> None:
    """A header that changes nothing, but makes the head unusual, gives the same request or refusal."""
    usual, other = read(data), read(data[: end - 2] + b"Origin: http://t\r\n\r\n" + data[end:])
    if isinstance(usual, bounds.Refusal) or isinstance(other, bounds.Refusal):
        assert usual is other is bounds.BAD_HOST
        return
    (one, rest), (whole, rest_of_whole) = usual, other
    assert one is not None
    assert whole is not None
    assert rest == rest_of_whole == data[end:]
    assert (one.method, one.path, one.query, one.version) == (whole.method, whole.path, whole.query, whole.version)
    assert (one.length, one.keep_alive) == (whole.length, whole.keep_alive)
    assert one.may_be_hot
    names = dict(IN_POST if one.method == "POST" else IN_GET)
    assert one.values == {name: value for name, value in whole.values.items() if name in names}


def same_as_twin(data: bytes) -> int:
    """Compare with the twin; returns the result. A head may be found to be malformed before its end arrives."""
    found = parse(data)
    end, words = twin.parse_head(data)
    if words is None:
        assert found in ((end,) if end == MALFORMED else (INCOMPLETE, MALFORMED)), data
    else:
        assert (found, list(FOUND)) == (end, words), data
        if FOUND[IS_USUAL]:
            is_read_alike_with_all_headers(data, found)
    return found


@pytest.mark.parametrize("head", [GET, POST])
@pytest.mark.parametrize("after", [b"", b"{}body\r\n\r\n", GET])
def test_usual_heads_are_read(head: bytes, after: bytes) -> None:
    assert same_as_twin(head + after) == len(head)
    assert FOUND[IS_USUAL]


@pytest.mark.parametrize("head", [GET, POST])
def test_a_head_is_incomplete_until_its_last_byte(head: bytes) -> None:
    assert {parse(head[:size]) for size in range(len(head))} == {INCOMPLETE}


@pytest.mark.parametrize(
    ("bound", "size", "answer"),
    [
        ("target_bytes_max", len(b"/predict?a=1&b=x"), bounds.TARGET_TOO_LONG),
        ("head_bytes_max", GET.index(b"\r\n\r\n") + 2 - GET.index(b"Host"), bounds.HEAD_TOO_LARGE),
        ("headers_max", 3, bounds.HEAD_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_head_is_read_up_to_each_bound(bound: str, size: int, answer: bounds.Refusal, step: int) -> None:
    def feed(most: int) -> Request | None:
        heads, request = HeadReader(replace(LIMITS, **{bound: most}), None), None
        for at in range(0, len(GET), step):
            request, _ = heads.feed(GET[at : at + step])
        return request

    assert feed(size) is not None
    with pytest.raises(Refused) as refused:
        feed(size - 1)
    assert refused.value.answer is answer


def line(text: bytes) -> bytes:
    return GET.replace(b"Accept: */*", text)


@pytest.mark.parametrize(
    "head",
    [
        GET.replace(b"GET", b"get"),
        GET.replace(b"GET", b"A" * 33),
        GET.replace(b"GET ", b"GET  "),
        GET.replace(b"GET ", b" "),
        GET.replace(b"a=1", b"a=\xc3\xa9"),
        GET.replace(b"1.1", b"1.2"),
        GET.replace(b"1.1", b"2.0"),
        GET.replace(b"\r\n", b"\n"),
        GET.replace(b"*/*\r\n", b"*/*\n"),
        b"\r\n" + GET,
        line(b"Content-Length: +0"),
        line(b"Content-Length: 0, 0"),
        line(b"Content-Length:"),
        line(b"Content-Length: " + b"1" * 20),
        line(b"Content-Length: 0\r\nContent-Length: 0"),
        line(b"Content-Length: 0\r\nTransfer-Encoding: chunked"),
        line(b"Transfer-Encoding: chunked\r\nContent-Length: 0"),
        line(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        line(b"Accept : */*"),
        line(b": a"),
        line(b"Accept"),
        line(b"X: a\r\n b"),
        line(b"X: a\0"),
        line(b"X: \x7f"),
        line(b"X: a\rb"),
    ],
)
def test_malformed_heads_are_refused(head: bytes) -> None:
    assert same_as_twin(head) == MALFORMED


@pytest.mark.parametrize(
    "head",
    [
        GET.replace(b"GET", b"PUT"),
        GET.replace(b"/predict", b"http://t/predict"),
        GET.replace(b"/predict", b"*"),
        GET.replace(b"a=1", b"a=1#b"),
        GET.replace(b"1.1", b"1.0"),
        GET.replace(b"Host: t:80\r\n", b""),
        line(b"Host: t"),
        line(b"Host: "),
        line(b"Content-Length: 1"),
        line(b"Content-Length: " + b"9" * 19),
        line(b"Transfer-Encoding: chunked"),
        POST.replace(b"CONTENT-LENGTH:  7", b"Transfer-Encoding: chunked"),
        line(b"Content-Encoding: gzip"),
        line(b"Connection: close"),
        line(b"Connection: keep-alive, upgrade"),
        line(b"Expect: 100-continue"),
        line(b"Upgrade: h2c"),
        line(b"Origin: http://t"),
        line(b"Sec-Fetch-Site: none"),
        line(b"Accept: "),
        line(b"Accept: a\r\nACCEPT: b"),
    ],
)
def test_heads_whose_headers_matter_are_not_usual(head: bytes) -> None:
    assert same_as_twin(head) == len(head)
    assert not FOUND[IS_USUAL]


def test_long_heads_are_read() -> None:
    for size in (1900, 2048, 50_000, 200_000):
        assert same_as_twin(line(b"X: " + b"x" * size)) > size


PIECES = [
    b"\r\n", b"\r", b"\n", b" ", b"\t", b":", b"Host: t\r\n", b"host", b"Content-Length: 3\r\n", b"content-length", b"0", b"9",
    b"Connection: keep-alive\r\n", b"close", b"\0", b"\x7f", b"\x80", b"?", b"#", b"/", b"HTTP/1.1", b"GET ", b"POST ", b"a",
    b"A: b\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n", b",", b"Accept: a\r\n", b"Idempotency-Key: k\r\n", b"\x0b", b"{",
]  # fmt: skip


def test_mutated_heads_are_read_as_the_twin_reads_them() -> None:
    chance, accepted, usual = random.Random(7), 0, 0
    for _ in range(30_000):
        head = bytearray(chance.choice((GET, POST)))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(head) + 1)
            head[at : at + chance.choice((0, 0, 1, 1, 2, 12))] = chance.choice(PIECES)
        is_read = same_as_twin(bytes(head)) > 0
        accepted += is_read
        usual += is_read and FOUND[IS_USUAL]
    assert accepted > usual > 3000
