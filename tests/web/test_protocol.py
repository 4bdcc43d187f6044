"""Heads of requests that are too long or too slow."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from riata.base.clock import ManualClock
from riata.web import protocol
from riata.web.app import create_app
from riata.web.protocol import HEAD_BYTES_MAX
from riata.web.settings import WebSettings
from tests.web.fake_service import FakeService
from tests.web.serving import serving


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    service = FakeService(ManualClock(10_000))
    with (
        serving(create_app(service, service, WebSettings(), service.clock)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as found,
    ):
        yield found


def status(connection: socket.socket) -> bytes:
    return connection.recv(65_536)[9:12]


def test_a_head_without_end_is_cut(connection: socket.socket) -> None:
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\nX-Long: ")
    sent = 0
    try:
        while sent < 50 * 2**20:
            sent += connection.send(b"x" * 65_536)
    except OSError:
        pass
    assert sent < 50 * 2**20, "nobody stopped listening"


def test_a_head_that_is_too_long_is_told_so(connection: socket.socket) -> None:
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\n")
    for at in range(HEAD_BYTES_MAX // 1000 + 1):
        connection.sendall(b"X-%06d: %s\r\n" % (at, b"x" * 988))
        time.sleep(0.001)
    assert status(connection) == b"431"


def test_a_head_in_pieces_is_read(connection: socket.socket) -> None:
    for piece in (b"GET /li", b"vez HTTP/1.1\r\nHo", b"st: t\r\n", b"\r\n"):
        connection.sendall(piece)
        time.sleep(0.02)
    assert status(connection) == b"200"


def test_a_head_that_trickles_is_given_up(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE_S", 0.2)
    connection.sendall(b"GET /livez HTTP/1.1\r\n")
    assert status(connection) == b"408"
    assert connection.recv(1) == b""


def test_the_deadline_ends_with_the_head(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE_S", 0.1)
    connection.sendall(b"GET /livez HTTP/1.1\r\n")
    connection.sendall(b"Host: t\r\n\r\n")
    assert status(connection) == b"200"
    time.sleep(0.3)
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
    assert status(connection) == b"200"
