"""uvicorn's HTTP protocol as an object that a connection holds: it answers what is not answered on the fast path.

Only public surface is used: the methods of `asyncio.Protocol`, `shutdown`, and the arguments with which uvicorn's server creates
the protocol. The transport, the ASGI application and the server state that it gets are wrapped here, so that the connection
knows when an answer begins and ends, and decides itself when the connection closes. `service/docs/inside.md` lists what of
uvicorn the service depends on.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import Any, Final, Protocol, cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

IS_STOPPING: Final = "riata.is_stopping"  # in the scope: whether the server shuts down, so that an answer without an end ends
_UPGRADE_WARNINGS: Final = ("Unsupported upgrade request", "No supported WebSocket library")


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_UPGRADE_WARNINGS)  # any client could fill the log with them


logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)


class Owner(Protocol):
    """The connection, as its stock protocol sees it."""

    wire: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    stopping: bool

    def leave(self) -> None:
        """Close the connection once everything written was sent."""

    def stock_reads(self, on: bool) -> None:
        """Read from the socket, or do not: the application has not taken what has arrived."""

    def stock_answered(self) -> None:
        """The answer was written."""


class StockTransport(asyncio.Transport):
    """The transport of the stock protocol."""

    def __init__(self, stock: Stock, wire: asyncio.Transport) -> None:
        super().__init__()
        self._stock = stock
        self._wire = wire

    def write(self, data: Any) -> None:
        """Write to the socket, unless the connection has answered by itself meanwhile."""
        if not self._stock.ended:
            self._wire.write(data)

    def is_closing(self) -> bool:
        """Return whether nothing can be written any more."""
        return self._stock.ended or self._wire.is_closing()

    def close(self) -> None:
        """Close the connection after the current answer. The stock protocol's own timer for idle connections is ignored."""
        if self._stock.owes and not self._stock.ended:
            self._stock.owner.leave()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._stock.owner.stock_reads(False)

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._stock.owner.stock_reads(True)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows about the socket."""
        return self._wire.get_extra_info(name, default)


class Stock:
    """The stock protocol of one connection. It is given one request at a time.

    owes   : whether it has been given a request and has not written all of its answer
    started: whether it has begun to write that answer
    ended  : whether the connection has taken its socket away for good
    """

    def __init__(self, owner: Owner, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        self.owner = owner
        self.owes = self.started = self.ended = False
        self._application = cast(ASGIApp, config.loaded_app)
        self._marks: dict[str, Any] = {}
        self._server_state = server_state
        self._state = ServerState()  # its own set of connections: the server counts the connection, not the stock protocol
        self._state.tasks = server_state.tasks
        own = copy.copy(config)
        own.loaded_app = self._run
        self._protocol = HttpToolsProtocol(config=own, server_state=self._state, app_state=app_state, _loop=owner.loop)
        self._protocol.connection_made(StockTransport(self, owner.wire))

    def begin(self, head: bytes, marks: dict[str, Any]) -> None:
        """Give it the head of the next request. `marks` are added to the scope."""
        self.owes, self.started = True, False
        self._marks = marks
        self._state.default_headers = self._server_state.default_headers
        self._protocol.data_received(head)

    def feed(self, body: bytes) -> None:
        """Give it a part of the body, as it was sent."""
        self._protocol.data_received(body)

    def stop(self) -> None:
        """Close the connection after the answer that it owes."""
        self._protocol.shutdown()

    def end(self) -> None:
        """Take its socket away: its request learns that the client is gone."""
        if not self.ended:
            self.ended = True
            self._protocol.connection_lost(None)

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._protocol.resume_writing()

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application, with an eye on its answer."""
        scope.update(self._marks)
        scope[IS_STOPPING] = lambda: self.owner.stopping

        async def send_seen(message: Message) -> None:
            self.started = True
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False) and not self.ended:
                self.owes = False
                self.owner.stock_answered()

        await self._application(scope, receive, send_seen)
