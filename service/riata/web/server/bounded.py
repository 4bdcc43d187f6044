"""One connection's limits and timeouts, whatever it is used for: deadlines, refusals, slow readers, closing.

Deadlines are plain numbers that `Server` checks a few times a second; a request arms no timer.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from uvicorn.server import ServerState

from riata.web.server import bounds
from riata.web.server.bounds import ListenerState, Refusal


class BoundedConnection(asyncio.Protocol):
    """A connection of a listener. `front` is shared by all of them. Its subclass knows what arrives: `web/server/connection.py`.

    busy    : an answer is owed, to a request whose head has arrived
    in_head : a part of a head has arrived
    in_body : a head has arrived, and not all of its body
    discarding    : received bytes are dropped
    ended   : the client has sent EOF
    stopping: the server shuts down: the connection closes after the answer that it owes
    """

    def __init__(self, front: ListenerState, server_state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self.front = front
        self.bounds = front.bounds
        self.server_state = server_state
        self.loop = loop
        self.wire: asyncio.Transport = None  # type: ignore[assignment]
        self.busy = self.in_head = self.in_body = False
        self.discarding = self.ended = self.stopping = False
        self.lingers = self.closing = self.lost = False
        self.write_paused = self.read_paused = False
        self.dropped = 0
        self.deadline = math.inf
        self.take_by = math.inf  # deadline for taking the whole answer
        self.take_next_by = math.inf  # deadline for taking some more of it
        self.waiting_bytes = 0

    # -- what the subclass does

    def interrupt(self) -> bool:
        """Give up the request whose body is incomplete. Returns whether nothing of an answer to it has been written."""
        raise NotImplementedError

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection, or refuse it if too many are open."""
        self.wire = cast(asyncio.Transport, transport)
        connections = self.server_state.connections
        connections.add(self)  # type: ignore[arg-type]
        self.deadline = self.loop.time() + self.bounds.head_s
        if transport.get_extra_info("socket").fileno() >= self.front.files_max:
            self.front.refused[bounds.CONNECTIONS_FULL.code] += 1
            self.wire.write(bounds.CONNECTIONS_FULL.raw)
            self._close()
        elif len(connections) - self.front.lingering > self.bounds.connections_max:
            self.refuse(bounds.CONNECTIONS_FULL)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Drop all state."""
        self.discarding = self.closing = self.lost = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        if self.lingers:
            self.lingers = False
            self.front.lingering -= 1
        self.server_state.connections.discard(self)

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than it is written: set the deadlines for that."""
        self.write_paused = True
        self.waiting_bytes = self.wire.get_write_buffer_size()
        now = self.loop.time()
        self.take_next_by = now + self.bounds.write_s
        self.take_by = self.take_next_by + self.waiting_bytes / self.bounds.write_bytes_per_s

    def resume_writing(self) -> None:
        """The client has read enough of its answer: clear the deadlines."""
        self.write_paused = False
        self.take_by = self.take_next_by = math.inf

    # -- called by the server

    def sweep(self, now: float) -> None:
        """Enforce the deadlines of this connection."""
        if now > self.take_next_by:
            waiting = self.wire.get_write_buffer_size()
            if waiting < self.waiting_bytes and now <= self.take_by:
                self.waiting_bytes = waiting
                self.take_next_by = now + self.bounds.write_s
            else:
                self.front.refused["slow_reader"] += 1
                self.abort()
        elif now > self.deadline:
            self._expire(now)

    def end_unfinished(self) -> None:
        """On shutdown, refuse a request that is still being sent; complete ones are answered."""
        if not self.discarding and (self.in_head or self.in_body):
            self.refuse(bounds.STOPPING)

    def abort(self) -> None:
        """Abort the connection; the unsent part of an answer is lost."""
        self.discarding = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        self.wire.abort()

    def leave(self) -> None:
        """Close: at once if no request is incomplete, otherwise after a time in which the client can read the answer."""
        if self.in_head or self.in_body:
            self._linger()
        elif not self.lingers:
            self._close()

    def refuse(self, answer: Refusal) -> None:
        """Refuse the request that is being sent, and close. All earlier requests have been answered."""
        self.front.refused[answer.code] += 1
        self.discarding = True
        if self.in_body and not self.interrupt():
            self.abort()
            return
        self.busy = False
        self.wire.write(answer.raw)
        if self.ended:
            self._close()
        else:
            self._linger()

    # -- the rest

    def is_closing(self) -> bool:
        """Return whether no further request is answered."""
        return self.closing or self.wire.is_closing()

    def drop(self, size: int) -> None:
        """Count bytes that are read and dropped; abort the connection beyond the limit."""
        self.dropped += size
        if self.dropped > self.bounds.linger_bytes_max:
            self.abort()

    def read(self, on: bool) -> None:
        """Read from the socket, or stop reading."""
        if on is self.read_paused and not self.lost and not self.wire.is_closing():
            self.read_paused = not on
            if on:
                self.wire.resume_reading()
            else:
                self.wire.pause_reading()

    def _expire(self, now: float) -> None:
        if self.is_closing():
            self.abort()
        elif self.read_paused:  # the body may have arrived and not been read yet
            self.deadline = now + self.bounds.body_idle_s
        elif self.in_head:
            self.refuse(bounds.HEAD_TOO_SLOW)
        elif not self.in_body:
            self.leave()
        elif not self.busy:  # answered before its body came
            self.abort()
        else:
            self.refuse(bounds.BODY_TOO_SLOW)

    def _linger(self) -> None:
        """Send EOF and drop what the client still sends: closing at once could reset the connection and lose the answer."""
        if self.lingers or self.wire.is_closing():
            return
        if self.front.lingering >= self.bounds.lingering_max:
            self._close()
            return
        self.lingers = self.discarding = self.closing = True
        self.front.lingering += 1
        self.read(True)
        self.deadline = self.loop.time() + self.bounds.linger_s + self._taking_s()
        self.wire.write_eof()

    def _close(self) -> None:
        self.discarding = self.closing = True
        self.deadline = self.loop.time() + self.bounds.write_s + self._taking_s()
        self.wire.close()

    def _taking_s(self) -> float:
        return self.wire.get_write_buffer_size() / self.bounds.write_bytes_per_s
