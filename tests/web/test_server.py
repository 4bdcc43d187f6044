"""Behaviour that can only be observed through a socket."""

from __future__ import annotations

import socket

import httpx

from riata import wiring
from riata.base.settings import Settings
from riata.web.server.bounds import ListenerState
from riata.web.server.server import build_server
from tests.settings import connection_bounds
from tests.web.serving import Whole, serving


def test_stopping_ends_idle_connections_and_stops_the_service(service: Whole) -> None:
    with serving(service.app()) as found:
        idle = socket.create_connection(("127.0.0.1", found))
        assert httpx.get(f"http://127.0.0.1:{found}/livez", timeout=20).status_code == 200
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
