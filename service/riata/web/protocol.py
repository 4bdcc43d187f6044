"""uvicorn's HTTP protocol with limits and timeouts on everything a connection does outside the route handlers.

A middleware cannot do this: it runs after the request head was read, and never sees a connection that sends no head. The
parser limits neither length nor time. It accepts requests that two servers may read differently (no Host or several,
trailers). Deadlines are plain numbers that `Server` checks a few times a second; a request arms no timer.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from riata.web import bounds
from riata.web.bounds import ListenerState, Refusal, Refused
from riata.web.heads import NO_TRAILERS, CheckedHeads

FRAMING_BYTES_MAX: Final = 64 * 2**10  # bytes of chunk heads and extensions allowed without any body
FRAMING_RATIO_MAX: Final = 8  # and as many for every byte of body: a chunk of one byte takes five


class GuardedTransport:
    """A wrapper of the transport, given to uvicorn: it replaces `close` and passes everything else through."""

    __slots__ = ("_close", "_is_closing", "closed", "get_extra_info", "pause_reading", "resume_reading", "write")

    def __init__(self, transport: asyncio.Transport, close: Any) -> None:
        self.write = transport.write
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.get_extra_info = transport.get_extra_info
        self._is_closing = transport.is_closing
        self._close = close
        self.closed = False

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self.closed or self._is_closing()

    def close(self) -> None:
        """Close the connection after what was written has been sent."""
        self._close()


class BoundedProtocol(CheckedHeads):
    """One connection. `front` is shared by all connections of a listener."""

    def __init__(self, front: ListenerState, **named: Any) -> None:
        super().__init__(front.bounds, front.hosts, **named)
        self.front = front
        self.wire: asyncio.Transport = None  # type: ignore[assignment]
        self.line: GuardedTransport = None  # type: ignore[assignment]
        self.in_head = False
        self.in_body = False
        self.open_for = -1  # bytes received since a head or body was found incomplete; -1 if none is
        self.body_bytes = 0
        self.body_before = 0  # the value of `body_bytes` when it was last checked for progress
        self.running: RequestResponseCycle | None = None
        self.deaf = False  # received bytes are dropped, not parsed
        self.ended = False  # the client has sent EOF
        self.owed: Refusal | None = None  # to be sent once earlier requests are answered
        self.lingers = False
        self.dropped = 0
        self.at_once = 0  # requests answered within the current `data_received`
        self.deadline = math.inf
        self.take_by = math.inf  # deadline for taking the whole answer
        self.take_next_by = math.inf  # deadline for taking some more of it
        self.waiting_bytes = 0

    # -- called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the connection, or refuse it if too many are open."""
        self.wire = transport
        self.line = GuardedTransport(transport, self.leave)
        super().connection_made(cast(asyncio.Transport, self.line))
        self.deadline = self.loop.time() + self.bounds.head_s
        if transport.get_extra_info("socket").fileno() >= self.front.files_max:
            self.front.refused[bounds.CONNECTIONS_FULL.code] += 1
            self.wire.write(bounds.CONNECTIONS_FULL.raw)
            self._close()
        elif len(self.connections) - self.front.lingering > self.bounds.connections_max:
            self.refuse(bounds.CONNECTIONS_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all state and tell the running request that its client is gone."""
        self.deaf = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        if self.lingers:
            self.lingers = False
            self.front.lingering -= 1
        if self.running is not None:  # uvicorn notifies only the newest request, which may still be queued
            self.running.disconnected = True
            self.running.message_event.set()
        super().connection_lost(exc)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, then check the limits of a head or body that is still incomplete."""
        if self.deaf:
            self._drop(len(data))
            return
        self.fed = len(data) if self.open_for < 0 else self.open_for + len(data)
        self.at_once = 0
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause.answer if isinstance(cause, Refused) else bounds.MALFORMED)
            return
        if self.in_head:
            self._head_is_open(len(data))
        elif self.in_body:
            self._body_is_open(len(data))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer complete requests although the client sends no more; refuse an incomplete one."""
        self.ended = True
        if self.deaf:
            return False
        if self.in_head or self.in_body:
            self.refuse(bounds.INCOMPLETE)
        return self.cycle is not None and not self.cycle.response_complete

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than it is written: set the deadlines for that."""
        super().pause_writing()
        self.waiting_bytes = self.wire.get_write_buffer_size()
        now = self.loop.time()
        self.take_next_by = now + self.bounds.write_s
        self.take_by = self.take_next_by + self.waiting_bytes / self.bounds.write_bytes_per_s

    def resume_writing(self) -> None:
        """The client has read enough of its answer: clear the deadlines."""
        super().resume_writing()
        self.take_by = self.take_next_by = math.inf

    # -- called by the parser

    def on_message_begin(self) -> None:
        """Begin a head; refuse it if too many requests are pipelined."""
        if len(self.pipeline) >= self.bounds.pipelined_max:
            raise Refused(bounds.PIPELINE_FULL)
        self.in_head = True
        self.open_for = -1
        self.seen = 0
        self._open()

    def on_headers_complete(self) -> None:
        """The head is complete: check it, then begin the request."""
        self._check_head()
        self.in_head = False
        self.in_body = True
        self.open_for = -1
        self.body_bytes = self.body_before = 0
        self._start()
        self.headers = NO_TRAILERS
        self.deadline = math.inf

    def on_body(self, body: bytes) -> None:
        """Count and pass on a part of a body."""
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self.in_body = False
        super().on_message_complete()
        if self.cycle.response_complete:
            self.dropped = 0
            self.deadline = self.loop.time() + self.bounds.idle_s

    def on_response_complete(self) -> None:
        """An answer is written: begin the next pipelined request, send a pending refusal, or wait for the next request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self.owed is not None:
            self._say(self.owed)
        elif self.ended:
            self.leave()
        elif self.in_body:
            self.deadline = self.loop.time() + self.bounds.linger_s  # answered before its body came, which is read and dropped
        elif not self.in_head:
            self.deadline = self.loop.time() + self.bounds.idle_s

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
        if not self.deaf and (self.in_head or self.in_body):
            self.refuse(bounds.STOPPING)

    def abort(self) -> None:
        """Abort the connection; the unsent part of an answer is lost."""
        self.deaf = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        self.wire.abort()

    def leave(self) -> None:
        """Close: at once if no request is incomplete, otherwise after a time in which the client can read the answer."""
        if self.in_head or self.in_body:
            self._linger()
        elif not self.lingers:
            self._close()

    def refuse(self, answer: Refusal) -> None:
        """Send a refusal and close, after the answers to all earlier requests."""
        self.front.refused[answer.code] += 1
        self.deaf = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._say(answer)
        elif self.in_body and not self.pipeline:
            if cycle.response_started:
                self.abort()
                return
            self._say(answer)
            cycle.disconnected = True
            cycle.message_event.set()
        else:
            if self.in_body:
                self.pipeline.popleft()  # the newest request, which has not begun
            self.owed = answer
            self.deadline = math.inf

    # -- the rest

    def _open(self) -> None:
        super().on_message_begin()

    def _start(self) -> None:
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:  # an upgrade was requested; answering in HTTP/1.1 is allowed
            rest = data[error.args[0] :]
            if rest:
                self._feed(rest)

    def _head_is_open(self, size: int) -> None:
        limits = self.bounds
        if self.open_for < 0:
            self.open_for = 0  # earlier bytes may belong to other requests; the head is measured when complete
            self.deadline = self.loop.time() + limits.head_s
        else:
            self.open_for += size
        if len(self.url) > limits.target_bytes_max:
            self.refuse(bounds.TARGET_TOO_LONG)
        elif self.open_for > limits.head_bytes_max + len(self.url):
            self.refuse(bounds.HEAD_TOO_LARGE)

    def _body_is_open(self, size: int) -> None:
        first = self.open_for < 0
        self.open_for = 0 if first else self.open_for + size
        if self.cycle.response_complete:
            self._drop(size)
        elif self.open_for > FRAMING_BYTES_MAX + FRAMING_RATIO_MAX * self.body_bytes:
            self.refuse(bounds.BAD_CHUNKS)
        elif first or self.body_bytes > self.body_before:
            self.body_before = self.body_bytes
            self.deadline = self.loop.time() + self.bounds.body_idle_s

    def _expire(self, now: float) -> None:
        if self.transport.is_closing():
            self.abort()
        elif self.flow.read_paused:  # the body may have arrived and not been read yet
            self.deadline = now + self.bounds.body_idle_s
        elif self.in_head:
            self.refuse(bounds.HEAD_TOO_SLOW)
        elif not self.in_body:
            self.leave()
        elif self.cycle.response_complete:
            self.abort()
        else:
            self.refuse(bounds.BODY_TOO_SLOW)

    def _drop(self, size: int) -> None:
        self.dropped += size
        if self.dropped > self.bounds.linger_bytes_max:
            self.abort()

    def _say(self, answer: Refusal) -> None:
        self.wire.write(answer.raw)
        if self.ended:
            self._close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Send EOF and drop what the client still sends: closing at once could reset the connection and lose the answer."""
        if self.lingers or self.wire.is_closing():
            return
        if self.front.lingering >= self.bounds.lingering_max:
            self._close()
            return
        self.lingers = self.deaf = self.line.closed = True
        self.front.lingering += 1
        self.flow.resume_reading()
        self.deadline = self.loop.time() + self.bounds.linger_s + self._taking_s()
        self.wire.write_eof()

    def _close(self) -> None:
        self.deaf = self.line.closed = True
        self.deadline = self.loop.time() + self.bounds.write_s + self._taking_s()
        self.wire.close()

    def _taking_s(self) -> float:
        return self.wire.get_write_buffer_size() / self.bounds.write_bytes_per_s
