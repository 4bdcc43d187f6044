"""Runs the application behind a real socket, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from fastapi import FastAPI
from starlette.types import ASGIApp

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.app import create_app
from riata.web.server.bounds import ListenerState
from riata.web.server.server import build_server, run
from riata.wiring import build_engine
from tests.settings import connection_bounds, web_settings

START_S_MAX = 900.0


@contextmanager
def serving(app: ASGIApp, graceful_stop_s: int = 5, front: ListenerState | None = None) -> Iterator[int]:
    """Serve `app` on a free port of the loopback interface for the duration of the block; yields the port."""
    server = build_server(app, "127.0.0.1", 0, graceful_stop_s, front or ListenerState(connection_bounds()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run, args=(server, [listening]), name="test-server")
        thread.start()
        try:
            deadline = time.monotonic() + START_S_MAX
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def real_app() -> FastAPI:
    """The whole service, on a store in memory."""

    def fatal(reason: str) -> None:
        raise AssertionError(reason)

    engine = build_engine(Settings(store="memory:", refit_nice=0), fatal)
    return create_app(Service(engine), Admin(engine), web_settings(), engine.clock)


def wait_until_ready(url: str, session: requests.Session) -> None:
    """Return when the service accepts requests."""
    deadline = time.monotonic() + START_S_MAX
    while session.get(f"{url}/readyz").status_code != 200:
        if time.monotonic() > deadline:
            raise TimeoutError(url)
        time.sleep(0.05)
