"""uvicorn server with uvloop: connection deadlines, bounded shutdown, no Server header, no access log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import logging
import operator
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from riata.base.errors import BadInput, Unavailable
from riata.web.server.bounds import ListenerState
from riata.web.server.connection import Connection
from riata.web.server.fast_path import FastPath

BACKLOG: Final = 2048
UNFINISHED_SHARE: Final = 0.75  # of the shutdown time; until then clients may complete requests
CUT_SHARE: Final = 0.95  # of the shutdown time; until then answers are completed and sent


log = logging.getLogger("riata.web")


class Server(uvicorn.Server):
    """uvicorn's server with deadlines for its connections and a bounded shutdown.

    A second signal ends the process at once: acknowledged events are in the log. `stopping` is set from the first signal on.
    """

    def __init__(self, config: uvicorn.Config, front: ListenerState) -> None:
        super().__init__(config)
        self.front = front
        self.stopping = threading.Event()
        self._sweeping: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            log.warning("second stop signal: ending at once; the next start replays the log")
            os._exit(128 + sig)
        self.stopping.set()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._sweeping = asyncio.create_task(self._sweep())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer complete requests, refuse incomplete ones, abort what does not end; all within the shutdown time."""
        self.stopping.set()
        leave = getattr(getattr(self.config.app, "state", None), "leave", None)  # the application's; that of the probes has none
        leaving = None if leave is None else asyncio.create_task(leave())
        within = self.config.timeout_graceful_shutdown or 0
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(within * UNFINISHED_SHARE, self._each, Connection.end_unfinished),
            loop.call_later(within * CUT_SHARE, self._each, Connection.abort),
        ]
        try:
            await super().shutdown(sockets)
        finally:
            if leaving is not None:
                leaving.cancel()
            for timer in timers:
                timer.cancel()
            if self._sweeping is not None:
                self._sweeping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._sweeping

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        every_s = self.front.bounds.sweep_s()
        while True:
            await asyncio.sleep(every_s)
            self._each(operator.methodcaller("sweep", loop.time()))

    def _each(self, act: Callable[[Connection], object]) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                act(connection)


def build_server(app: ASGIApp, host: str, port: int, graceful_stop_s: int, front: ListenerState) -> Server:
    """Build the server, with the fast path if the application has one.

    Setting its `should_exit`, from any thread, makes it shut down gracefully.
    """
    fast: FastPath | None = getattr(getattr(app, "state", None), "fast_path", None)
    protocol = functools.partial(Connection, front, fast)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        server_header=False,
        access_log=False,
        proxy_headers=False,
        log_config=None,
        backlog=BACKLOG,
        timeout_graceful_shutdown=graceful_stop_s,
    )
    return Server(config, front)


def listen(host: str, port: int, options: str = "--host and --port") -> socket.socket:
    """Bind and listen, before anything else is opened. Raises `Unavailable` (code `cannot_listen`) saying what to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        advice = f"choose another with {options.split()[-1]}" if error.errno == errno.EADDRINUSE else f"check {options}"
        reason = os.strerror(error.errno or 0)
        raise Unavailable(f"cannot listen on {host} port {port}: {reason}; {advice}", "cannot_listen") from None


def run(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
    """Serve until a signal; returns once the lifespan has stopped the service.

    `sockets`, if given, are used instead of the server's host and port. uvicorn raises the signal that stopped it again
    after shutdown. The handler set here for SIGTERM ignores that one, so that the process ends normally and not by a signal.
    """

    def ask_to_stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ask_to_stop)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets))


# Refuse to listen beyond the loopback without API keys, unless the operator allows it.


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # any other name may resolve to any address


def require_safe_host(host: str, allow_unauthenticated: bool) -> None:
    """Raise `BadInput` (unauthenticated_host) if the service would listen to other machines without requiring keys."""
    if not allow_unauthenticated and not is_loopback(host):
        raise BadInput(
            f"host {host!r} can be reached from other machines and requests are not authenticated; listen on 127.0.0.1, create "
            "keys with `riata keys new` and set keys_file to their file, or set allow_unauthenticated if every client is "
            "trusted",
            "unauthenticated_host",
        )
