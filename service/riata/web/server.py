"""uvicorn, configured: uvloop and httptools, bounded stop, no name in the answers, no access log of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from riata.base.errors import Unavailable
from riata.web.protocol import BoundedProtocol

KEEP_ALIVE_S: Final = 75  # longer than load balancers keep idle connections, so that they and not we close them
BACKLOG: Final = 2048


log = logging.getLogger("riata.web")


class Server(uvicorn.Server):
    """uvicorn's server, but a second signal ends the process at once: what was acknowledged is in the log."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            log.warning("told to stop again: ending at once, the next start replays the log")
            os._exit(128 + sig)
        super().handle_exit(sig, frame)


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
    return Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen, before anything else is opened. Raises `Unavailable` (code `cannot_listen`) saying what to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        advice = "choose another with --port" if error.errno == errno.EADDRINUSE else "check --host and --port"
        reason = os.strerror(error.errno or 0)
        raise Unavailable(f"cannot listen on {host} port {port}: {reason}; {advice}", "cannot_listen") from None


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
