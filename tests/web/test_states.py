"""The states of a connection: it makes every move of the table, and no other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from riata.web.server.bounds import ListenerState
from riata.web.server.connection import MOVES, Connection, State
from tests.settings import connection_bounds
from tests.web.attack.raw import get, post

EARLY, LATER = b"/early", b"/later"  # answered at once, and never


class Wire(asyncio.Transport):
    """A transport that remembers what was written. It is its own socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        return self

    def fileno(self) -> int:
        return 3

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer `/early` at once, `/later` never, and everything else when its body has come."""
    more = scope["path"] != EARLY.decode()
    while more:
        message = await receive()
        more = message.get("more_body", False) or scope["path"] == LATER.decode()
        if message["type"] == "http.disconnect":
            return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


class Watched(Connection):
    """A connection that records its moves."""

    moves: list[tuple[State, State]]

    def _to(self, state: State) -> None:
        before = self.state
        super()._to(state)
        self.moves.append((before, state))


def opened() -> Watched:
    config = uvicorn.Config(cast(Any, application), log_config=None)
    config.load()
    config.loaded_app = application
    connection = Watched(ListenerState(connection_bounds()), None, config, ServerState(), {}, asyncio.get_running_loop())
    connection.moves = []
    connection.connection_made(Wire())
    return connection


HALF_HEAD = get(b"/")[:-2]
HALF_BODY = post(b"12", path=b"/echo")[:-1]
REACHED = {
    State.IDLE: (),
    State.HEAD: (HALF_HEAD,),
    State.BODY: (HALF_BODY,),
    State.ANSWERING: (get(LATER),),
    State.UNREAD: (post(b"12", path=EARLY)[:-1],),
    State.LINGERING: (b"nonsense\r\n\r\n",),
    State.CLOSING: (get(b"/", b"Connection: close"),),
}
ENDS: dict[str, Callable[[Watched], Any]] = {
    "the client is gone": lambda connection: connection.connection_lost(None),
    "the client sends no more": Connection.eof_received,
    "the server stops": Connection.shutdown,
    "the time is over": lambda connection: connection.sweep(math.inf if connection.deadline < math.inf else 0.0),
    "it is aborted": Connection.abort,
    "nonsense comes": lambda connection: connection.data_received(b"nonsense\r\n\r\n"),
}
GOES_ON = [
    (HALF_HEAD, b"\r\n"),
    (post(b"12", path=b"/echo")[:-3], b"\n", b"12"),
    (HALF_BODY, b"2"),
    (REACHED[State.UNREAD][0], b"2"),
    (get(b"/"), get(b"/")),
]


async def driven(*parts: bytes) -> Watched:
    connection = opened()
    for part in parts:
        connection.data_received(part)
        await asyncio.sleep(0.001)
    return connection


async def every_move() -> set[tuple[State, State]]:
    made: set[tuple[State, State]] = set()
    for parts in GOES_ON:
        connection = await driven(*parts)
        assert connection.state is State.IDLE
        made |= set(connection.moves)
    for state, parts in REACHED.items():
        for end in ENDS.values():
            connection = await driven(*parts)
            assert connection.state is state
            end(connection)
            if connection.state is not State.LOST:
                connection.connection_lost(None)
            made |= set(connection.moves)
    return made


def test_a_connection_makes_every_move_of_the_table_and_no_other() -> None:
    made = asyncio.run(every_move())
    assert made == {(before, state) for before, following in MOVES.items() for state in following}


def test_a_move_that_is_not_in_the_table_is_a_fault() -> None:
    async def move() -> None:
        connection = opened()
        for before in State:
            for state in set(State) - MOVES[before]:
                connection.state = before
                with pytest.raises(RuntimeError, match="cannot become"):
                    connection._to(state)
                assert connection.state is before

    asyncio.run(move())
