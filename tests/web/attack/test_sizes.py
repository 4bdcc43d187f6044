"""Requests that are too much: one exact refusal, and memory stays what it was."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.running import Running
from tests.web.attack.conftest import BODY_BYTES_MAX, CALM, Start, Target
from tests.web.attack.raw import ROW, get, listen_to, post, talk

MIB = 2**20
GROWTH_MAX = 24 * MIB  # buffers of the sockets and of the allocator; what is sent below is twice that and more


def head(headers: int = 0, line_bytes: int = 8, target: bytes = b"/livez") -> bytes:
    lines = [b"X%06d: %s" % (at, b"x" * (line_bytes - 11)) for at in range(headers)]
    return get(target, *lines)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (head(headers=63, line_bytes=20), (200, "")),
        (head(headers=64, line_bytes=20), (431, "head_too_large")),
        (head(headers=10_000, line_bytes=20), (431, "head_too_large")),
        (head(headers=16, line_bytes=1000), (200, "")),
        (head(headers=17, line_bytes=1000), (431, "head_too_large")),
        (get(b"/livez", b"X: " + b"x" * 16_300), (200, "")),
        (get(b"/livez", b"X: " + b"x" * 16_400), (431, "head_too_large")),
        (get(b"/livez", b"Authorization: Bearer " + b"x" * MIB), (431, "head_too_large")),
        (get(b"/" + b"a" * 65_000), (404, "no_such_route")),
        (get(b"/" + b"a" * 70_000), (414, "target_too_long")),
        (get(b"/predict?a=" + b"1" * 65_530), (414, "target_too_long")),
        (get(b"/predict?" + b"&".join(b"f%d=1" % at for at in range(5000))), (200, "")),
    ],
)
def test_heads_at_and_beyond_their_bounds(target: Target, sent: bytes, answer: tuple[int, str]) -> None:
    received = talk(target.port, sent, silence_s=0.5)
    assert received.told == [answer]
    assert received.closed == (answer[0] in (414, 431))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (post(b"", length=BODY_BYTES_MAX + 1), (413, "body_too_large")),
        (post(b"", length=10**18), (413, "body_too_large")),
        (post(b" " * BODY_BYTES_MAX), (400, "empty_body")),
    ],
)
def test_bodies_at_and_beyond_their_bound(target: Target, sent: bytes, answer: tuple[int, str]) -> None:
    received = talk(target.port, sent, silence_s=1.5)
    assert received.told == [answer]
    assert target.appended == 0


def test_a_body_in_chunks_is_refused_once_it_is_too_long_and_the_rest_is_not_read(target: Target) -> None:
    chunks = b"POST /observe HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", target.port), timeout=300) as connection:
        connection.sendall(chunks)
        sent = 0
        try:
            while sent < 200 * MIB:
                connection.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")
                sent += 65_536
        except OSError:
            pass
        assert sent < 200 * MIB, "the server did not stop reading"
    assert target.appended == 0


def test_a_refusal_reaches_a_client_that_sends_its_whole_body_first(target: Target) -> None:
    received = talk(target.port, post(b" " * (2 * BODY_BYTES_MAX)))
    assert received.told == [(413, "body_too_large")]
    assert received.closed


def test_bodies_together_are_bounded_and_the_room_is_given_back(start: Start) -> None:
    target = start(replace(CALM), body_s=30.0, bodies_bytes_max=BODY_BYTES_MAX)
    half = post(b" " * (BODY_BYTES_MAX - 4096), length=BODY_BYTES_MAX)
    with socket.create_connection(("127.0.0.1", target.port), timeout=300) as first:
        first.sendall(half)
        until = time.monotonic() + 900
        while (told := talk(target.port, half, silence_s=0.2, awaited=0).told) != [(503, "bodies_full")]:
            assert time.monotonic() < until, told
        assert talk(target.port, post(ROW), silence_s=0.3).told == [(202, "")], "small bodies go on"
        first.sendall(b" " * 4096)
        assert listen_to(first, 0.5).told == [(400, "empty_body")]
    assert talk(target.port, post(b" " * BODY_BYTES_MAX), silence_s=0.5).told == [(400, "empty_body")]


@pytest.mark.parametrize("sent", [post(ROW[:10], length=len(ROW)), b"GET /livez HTTP/1.1\r\nHos"], ids=["body", "head"])
def test_a_request_that_ends_early_is_refused_and_adds_nothing(target: Target, sent: bytes) -> None:
    received = talk(target.port, sent, half_close=True)
    assert received.told == [(400, "incomplete_request")]
    assert received.closed
    assert target.appended == 0


def test_a_client_that_has_said_all_is_answered(target: Target) -> None:
    received = talk(target.port, post(ROW), half_close=True)
    assert received.told == [(202, "")]
    assert received.closed
    assert target.appended == 1


@pytest.mark.parametrize("encoding", [b"br", b"deflate", b"gzip, gzip", b"compress"])
def test_encodings_that_are_not_unpacked_are_refused_before_they_are_read(target: Target, encoding: bytes) -> None:
    received = talk(target.port, post(b"", b"Content-Encoding: " + encoding, length=BODY_BYTES_MAX), silence_s=CALM.linger_s + 1)
    assert received.told == [(415, "unsupported_encoding")]
    assert received.closed


def test_headers_of_proxies_are_ignored_and_not_repeated(target: Target) -> None:
    false = [
        b"X-Forwarded-For: 10.0.0.1",
        b"X-Forwarded-Proto: https",
        b"Forwarded: for=10.0.0.1",
        b"traceparent: " + b"0" * 9000,
    ]
    received = talk(target.port, get(b"/models/none", *false), silence_s=0.3)
    assert received.told == [(404, "model_not_found")]
    assert b"10.0.0.1" not in received.replies[0].body
    assert "traceparent" not in received.replies[0].headers


def test_no_answer_names_the_server(target: Target) -> None:
    for sent in (get(b"/livez"), get(b"/none"), b"BAD\r\n\r\n"):
        for reply in talk(target.port, sent, silence_s=0.2).replies:
            assert not {"server", "x-powered-by", "via"} & set(reply.headers)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service in a separate process, whose memory can be read."""
    with Running(tmp_path_factory.mktemp("sizes") / "data") as found:
        found.start()
        talk(found.port, post(ROW), silence_s=0.5)
        yield found
        assert found.stop() == 0


def resident(running: Running) -> int:
    return int(psutil.Process(running.process.pid).memory_info().rss)


def flood(port: int, first: bytes, part: bytes, total: int) -> bytes:
    """Send up to `total` bytes, as many as are accepted; returns the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(first)
        sent = 0
        try:
            while sent < total:
                connection.sendall(part)
                sent += len(part)
        except OSError:
            pass
        return b"%d" % listen_to(connection).replies[0].status if sent >= total else b"cut"


@pytest.mark.parametrize(
    ("first", "part"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: t\r\nX: ", b"x" * 65_536),
        (b"GET /livez HTTP/1.1\r\nHost: t\r\n", b"X-%08d: 1\r\n" % 1 * 4096),
        (b"GET /", b"a" * 65_536),
        (post(b"", length=10**9), b" " * 65_536),
        (post(b"", b"Content-Encoding: gzip", length=10**7), b"\x1f\x8b" * 32_768),
    ],
    ids=["one header", "many headers", "path", "body", "compressed"],
)
def test_memory_stays_flat_under_48_mb_of_anything(running: Running, first: bytes, part: bytes) -> None:
    before = resident(running)
    assert flood(running.port, first, part, 48 * MIB) in (b"cut", b"431", b"414", b"413", b"400")
    assert resident(running) - before < GROWTH_MAX
    assert talk(running.port, get(b"/livez"), silence_s=0.5).told == [(200, "")]


def test_the_log_shows_nothing_of_what_was_sent(running: Running) -> None:
    marker = b"not-to-be-written-down"
    for sent in (
        get(b"/" + marker),
        get(b"/livez", b"X-A: " + marker, b"traceparent: " + marker),
        b"BAD " + marker + b"\r\n\r\n",
        post(marker, b"Idempotency-Key: " + marker),
        get(b"/livez", b"Host: " + marker),
    ):
        talk(running.port, sent, silence_s=0.2)
    assert marker.decode() not in Path(f"{running.directory}.log").read_text()
