"""uvicorn, configured: uvloop and httptools, bounded stop, no name in the answers, no access log of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from riata.web.protocol import BoundedProtocol

KEEP_ALIVE_S: Final = 75  # longer than load balancers keep idle connections, so that they and not we close them
BACKLOG: Final = 2048


def build_server(app: ASGIApp, host: str, port: int, graceful_stop_s: int) -> uvicorn.Server:
    """Build the server. Setting its `should_exit`, from any thread, makes it stop in good order."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        server_header=False,
        access_log=False,
        proxy_headers=False,
        log_config=None,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=graceful_stop_s,
    )
    return uvicorn.Server(config)


def run(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
    """Serve until a signal; returns once the lifespan has stopped the service.

    `sockets`, where given, are listened on instead of the server's host and port. uvicorn raises the signal that stopped
    it once more when all is done; that SIGTERM then finds a handler that lets the process end well instead of by a signal.
    """

    def ask_to_stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ask_to_stop)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets))
