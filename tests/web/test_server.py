"""Behaviour that can only be observed through a socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from riata import wiring
from riata.base.settings import Settings
from riata.web.server.bounds import ListenerState
from riata.web.server.server import build_server
from tests.settings import connection_bounds
from tests.web.serving import Whole, serving

ROW = b'{"features":{"a":1},"label":1}'
BODY_BYTES_MAX = 256 * 1024


@pytest.fixture
def port(service: Whole) -> Iterator[int]:
    with serving(service.app(body_bytes_max=BODY_BYTES_MAX)) as found:
        service.until_ready()
        yield found


def exchange(port: int, request: bytes, last: bool = False) -> bytes:
    """Send bytes and read until the other side closes or sends nothing more."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        if last:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        connection.settimeout(20.0)  # until it begins to answer; a busy machine takes its time
        try:
            while part := connection.recv(65_536):
                received += part
                connection.settimeout(1.0)
        except (TimeoutError, ConnectionResetError):
            pass
        return received


def post(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    head = [b"POST /observe HTTP/1.1", b"Host: t", b"Content-Type: application/json", *headers]
    head.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def test_an_answer_names_no_server(port: int) -> None:
    received = exchange(port, post(ROW, b"Connection: close"))
    assert received.startswith(b"HTTP/1.1 202 ")
    assert b"\r\nserver:" not in received.lower()
    assert b"\r\ncache-control: no-store" in received


def test_connections_are_kept(port: int) -> None:
    assert exchange(port, post(ROW) + post(ROW, b"Connection: close")).count(b"HTTP/1.1 202 ") == 2


def test_a_body_announced_too_long_is_refused_before_it_is_sent(port: int) -> None:
    received = exchange(port, post(b"", length=BODY_BYTES_MAX + 1))
    assert received.startswith(b"HTTP/1.1 413 ")
    assert json.loads(received.split(b"\r\n\r\n", 1)[1])["code"] == "body_too_large"


def test_a_chunked_body_is_refused_once_it_is_too_long(port: int) -> None:
    head = b"POST /observe HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    received = exchange(port, head + chunk * (BODY_BYTES_MAX // 65_536 + 1))
    assert received.startswith(b"HTTP/1.1 413 ")


def test_a_body_that_ends_early_adds_nothing(port: int, service: Whole) -> None:
    exchange(port, post(ROW, length=len(ROW) + 10), last=True)
    assert service.logged() == 1


def test_stopping_ends_idle_connections_and_stops_the_service(service: Whole) -> None:
    with serving(service.app()) as found:
        idle = socket.create_connection(("127.0.0.1", found))
        exchange(found, post(ROW, b"Connection: close"))
    idle.close()
    assert service.engine.stopping


def test_the_server_is_configured_as_promised() -> None:
    config = build_server(lambda *_: None, "127.0.0.1", 8080, 20, ListenerState(connection_bounds())).config  # type: ignore[arg-type]
    assert config.timeout_graceful_shutdown == 20
    assert not config.server_header
    assert not config.access_log
    assert not config.proxy_headers


def test_the_bounds_of_a_connection_are_those_of_the_settings() -> None:
    found = wiring.connection_bounds(Settings())
    assert (found.head_bytes_max, found.headers_max, found.connections_max) == (16 * 1024, 64, 1024)
    assert (found.head_s, found.body_idle_s, found.write_s, found.idle_s) == (5, 15, 10, 75)
    given = Settings(head_timeout_s=1, body_idle_timeout_s=2, write_timeout_s=3, idle_timeout_s=4, connections_max=5)
    found = wiring.connection_bounds(given)
    assert (found.head_s, found.body_idle_s, found.write_s, found.idle_s, found.connections_max) == (1, 2, 3, 4, 5)
