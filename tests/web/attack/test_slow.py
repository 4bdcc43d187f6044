"""Clients that take their time: each way of holding a connection ends when its deadline says, and not before."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from riata.web.server.connection import BODY_WAIT_S
from tests.settings import connection_bounds
from tests.web.attack.conftest import Start, Target, begin
from tests.web.attack.raw import ROW, Received, get, listen_to, post, talk

QUICK = connection_bounds(head_s=0.8, body_idle_s=0.8, write_s=0.5, idle_s=1.2, linger_s=0.5)  # short enough to wait for
BODY_S = 2.0
SLACK_S = 300.0  # the machine may be busy; without a deadline all of these would last for ever
CHUNKED = b"POST /observe HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def standing(parser_loaded: None) -> Iterator[Target]:  # noqa: ARG001
    """One server for all tests of this module, with short deadlines."""
    with ExitStack() as stack:
        yield begin(stack, QUICK, body_s=BODY_S)


def connect(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.port), timeout=300)


def trickle(target: Target, first: bytes, parts: Iterable[bytes], every_s: float) -> tuple[Received, float]:
    """Send `first`, then one part after another until an answer arrives; returns the answer and the seconds it took."""
    begun = time.monotonic()
    with connect(target) as connection:
        connection.sendall(first)
        connection.settimeout(every_s)
        for part in parts:
            try:
                if connection.recv(1, socket.MSG_PEEK) is not None:
                    break
            except TimeoutError:
                connection.sendall(part)
            except ConnectionResetError:
                break
        answered = listen_to(connection, 5)
        return answered, time.monotonic() - begun


def test_a_connection_that_says_nothing_is_closed(target: Target) -> None:
    begun = time.monotonic()
    with connect(target) as connection:
        assert listen_to(connection, 5) == Received([], True)
        took = time.monotonic() - begun
    assert QUICK.head_s * 0.9 <= took < QUICK.head_s + SLACK_S


def test_a_head_that_is_sent_slowly_is_given_up(target: Target) -> None:
    answered, took = trickle(target, b"GET /livez HTTP/1.1\r\nHost: t\r\nX: ", [b"x"] * 1000, 0.1)
    assert answered.told == [(408, "head_too_slow")]
    assert answered.closed
    assert QUICK.head_s * 0.9 <= took < QUICK.head_s + QUICK.linger_s + SLACK_S


def test_empty_lines_before_a_head_do_not_hold_a_connection(target: Target) -> None:
    answered, took = trickle(target, b"\r\n", [b"\r\n"] * 1000, 0.1)
    assert answered == Received([], True)
    assert took < QUICK.head_s + SLACK_S


def test_a_second_head_has_the_same_deadline(target: Target) -> None:
    answered, _ = trickle(target, get(b"/livez") + b"GET /livez HTTP/1.1\r\n", [], 0.1)
    assert answered.told == [(200, ""), (408, "head_too_slow")]


def test_a_head_in_pieces_within_its_deadline_is_read(start: Start) -> None:
    target = start()
    answered, _ = trickle(target, b"GET /li", [b"vez HTTP/1.1\r\nHo", b"st: t\r\n", b"\r\n", b""], 0.05)
    assert answered.told == [(200, "")]


@pytest.mark.parametrize("head", [post(b"", length=30), CHUNKED], ids=["length", "chunks"])
def test_a_body_that_never_comes_is_given_up(target: Target, head: bytes) -> None:
    answered, took = trickle(target, head, [], 0.1)
    assert answered.told == [(408, "body_too_slow")]
    assert answered.closed
    assert QUICK.body_idle_s * 0.9 <= took < QUICK.body_idle_s + QUICK.linger_s + SLACK_S
    assert target.appended == 0


def test_a_body_that_stalls_is_given_up(target: Target) -> None:
    answered, _ = trickle(target, post(ROW[:10], length=len(ROW)), [], 0.1)
    assert answered.told == [(408, "body_too_slow")]
    assert target.appended == 0


@pytest.mark.parametrize("length", [2_000, 200_000], ids=["short", "long"])
def test_a_body_that_is_sent_slowly_is_given_up_at_its_total_deadline(start: Start, length: int) -> None:
    target = start(QUICK, body_s=0.8)
    answered, took = trickle(target, post(b" ", length=length), [b" "] * 1000, 0.1)
    assert answered.told == [(408, "body_too_slow")]
    assert took < BODY_WAIT_S + 0.8 + QUICK.linger_s + SLACK_S
    assert target.front.refused["body_too_slow"] == 0, "the route said it, not the connection"


def test_framing_without_body_is_no_progress(target: Target) -> None:
    answered, took = trickle(target, CHUNKED + b"1e;a=", [b"b"] * 1000, 0.1)
    assert answered.told == [(408, "body_too_slow")]
    assert took < QUICK.body_idle_s + QUICK.linger_s + SLACK_S


def test_a_body_in_pieces_within_its_deadline_is_taken(start: Start) -> None:
    target = start(replace(QUICK, body_idle_s=2.0), body_s=60.0)
    pieces = [ROW[at : at + 5] for at in range(0, len(ROW), 5)]
    answered, took = trickle(target, post(b"", length=len(ROW)), [*pieces, b""], 0.5)
    assert took > 2.0, "it took longer than any one piece may"
    assert answered.told == [(202, "")]
    assert target.appended == 1


def test_the_rest_of_a_body_that_was_answered_without_it_is_not_waited_for(target: Target) -> None:
    answered, took = trickle(target, post(b"", path=b"/models/none/observe", length=30), [], 0.1)
    assert answered.told == [(404, "model_not_found")]
    assert answered.closed
    assert took < QUICK.linger_s + SLACK_S


def test_a_connection_between_two_requests_is_closed_when_it_has_been_idle(target: Target) -> None:
    begun = time.monotonic()
    answered = talk(target.port, get(b"/livez"), silence_s=5)
    took = time.monotonic() - begun
    assert answered.told == [(200, "")]
    assert answered.closed
    assert QUICK.idle_s * 0.9 <= took < QUICK.idle_s + SLACK_S


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_an_answer_that_is_not_taken_is_dropped(start: Start, monkeypatch: pytest.MonkeyPatch, last: bytes) -> None:
    target = start(QUICK)
    large = bytes(32 * 2**20)

    async def export(_model: str) -> bytes:
        return large

    monkeypatch.setattr(target.service.admin, "export", export)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.connect(("127.0.0.1", target.port))
        begun = time.monotonic()
        connection.sendall(b"GET /models/default/export HTTP/1.1\r\nHost: t\r\n%s\r\n" % last)
        while not target.front.refused["slow_reader"]:
            assert time.monotonic() - begun < SLACK_S, "the answer is still held"
            time.sleep(0.02)
        assert time.monotonic() - begun >= QUICK.write_s * 0.9
        connection.settimeout(5)
        received = 0
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                received += len(part)
    assert received < len(large)


def test_an_answer_that_is_taken_slowly_arrives_whole(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    target = start(replace(QUICK, write_s=2.0))
    large = bytes(8 * 2**20)

    async def export(_model: str) -> bytes:
        return large

    monkeypatch.setattr(target.service.admin, "export", export)
    with connect(target) as connection:
        connection.sendall(get(b"/models/default/export", b"Connection: close"))
        received = b""
        while part := connection.recv(1 << 20):
            received += part
            time.sleep(0.3)
    assert received.endswith(large)
    assert target.front.refused == {}
