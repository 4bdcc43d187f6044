"""The application behind a real socket, in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from riata.web.server import build_server

START_S_MAX = 60.0


@contextmanager
def serving(app: ASGIApp, graceful_stop_s: int = 5) -> Iterator[int]:
    """Serve `app` on a free port of the loopback as long as the block lasts; yields the port."""
    server = build_server(app, "127.0.0.1", 0, graceful_stop_s)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                runner.run(server.serve([listening]))

        thread = threading.Thread(target=run, name="test-server")
        thread.start()
        try:
            deadline = time.monotonic() + START_S_MAX
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
