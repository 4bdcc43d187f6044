"""uvicorn's HTTP protocol with bounds on everything a connection does before, between and after the routes.

A middleware cannot do this: it runs after the head was read, and it does not see connections that send none. The parser
itself bounds neither length nor time, and lets pass what two servers may read in two ways (no Host or several, trailers).
Deadlines are numbers that `Server` looks at a few times a second; the way of a request arms no timer.
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

FRAMING_BYTES_MAX: Final = 64 * 2**10  # bytes of chunk heads and extensions for nothing
FRAMING_RATIO_MAX: Final = 8  # and for every byte of body: chunks of one byte take five


class GuardedTransport:
    """The transport as uvicorn sees it: `close` is ours, everything else is the transport's own."""

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
        """Say whether the connection is on its way out."""
        return self.closed or self._is_closing()

    def close(self) -> None:
        """Answer what is written, then end."""
        self._close()


class BoundedProtocol(CheckedHeads):
    """One connection. `front` is shared by all of a listener."""

    def __init__(self, front: ListenerState, **named: Any) -> None:
        super().__init__(front.bounds, front.hosts, **named)
        self.front = front
        self.wire: asyncio.Transport = None  # type: ignore[assignment]
        self.line: GuardedTransport = None  # type: ignore[assignment]
        self.in_head = False
        self.in_body = False
        self.open_for = -1  # bytes that came since the head, or the body, was left open; -1 where it was not
        self.body_bytes = 0
        self.body_before = 0  # of them, those that came before the last look
        self.running: RequestResponseCycle | None = None
        self.deaf = False  # nothing that comes is read any more
        self.ended = False  # the other side has said all it will say
        self.owed: Refusal | None = None  # to be given once earlier requests are answered
        self.lingers = False
        self.dropped = 0
        self.at_once = 0  # requests answered before what was received with them was read to its end
        self.deadline = math.inf
        self.take_by = math.inf  # the whole answer
        self.take_next_by = math.inf  # some of the answer
        self.waiting_bytes = 0

    # -- what the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or refuse at once where there are too many."""
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
        """Forget it."""
        self.deaf = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        if self.lingers:
            self.lingers = False
            self.front.lingering -= 1
        if self.running is not None:  # uvicorn tells the newest request only, which may still have waited for its turn
            self.running.disconnected = True
            self.running.message_event.set()
        super().connection_lost(exc)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Parse, then see what was left open."""
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
        """Answer what was asked in full although nothing more will come; refuse what was not."""
        self.ended = True
        if self.deaf:
            return False
        if self.in_head or self.in_body:
            self.refuse(bounds.INCOMPLETE)
        return self.cycle is not None and not self.cycle.response_complete

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as it is written."""
        super().pause_writing()
        self.waiting_bytes = self.wire.get_write_buffer_size()
        now = self.loop.time()
        self.take_next_by = now + self.bounds.write_s
        self.take_by = self.take_next_by + self.waiting_bytes / self.bounds.write_bytes_per_s

    def resume_writing(self) -> None:
        """It has."""
        super().resume_writing()
        self.take_by = self.take_next_by = math.inf

    # -- what the parser calls

    def on_message_begin(self) -> None:
        """A head begins."""
        if len(self.pipeline) >= self.bounds.pipelined_max:
            raise Refused(bounds.PIPELINE_FULL)
        self.in_head = True
        self.open_for = -1
        self.seen = 0
        self._open()

    def on_headers_complete(self) -> None:
        """The head is whole: is it one that is answered here?"""
        self._check_head()
        self.in_head = False
        self.in_body = True
        self.open_for = -1
        self.body_bytes = self.body_before = 0
        self._start()
        self.headers = NO_TRAILERS
        self.deadline = math.inf

    def on_body(self, body: bytes) -> None:
        """Part of a body."""
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self.in_body = False
        super().on_message_complete()
        if self.cycle.response_complete:
            self.dropped = 0
            self.deadline = self.loop.time() + self.bounds.idle_s

    def on_response_complete(self) -> None:
        """An answer is written: the next one, or what was held back until now, or waiting for the next request."""
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
            self.deadline = self.loop.time() + self.bounds.linger_s  # answered without its body, which is read and dropped
        elif not self.in_head:
            self.deadline = self.loop.time() + self.bounds.idle_s

    # -- what the server calls

    def sweep(self, now: float) -> None:
        """End what has taken too long."""
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
        """The service stops: requests that are still being sent are refused, those that are whole are answered."""
        if not self.deaf and (self.in_head or self.in_body):
            self.refuse(bounds.STOPPING)

    def abort(self) -> None:
        """Cut the connection; what was not taken of an answer is gone."""
        self.deaf = True
        self.deadline = self.take_by = self.take_next_by = math.inf
        self.wire.abort()

    def leave(self) -> None:
        """Close: at once where the client has said all it had to say, else after it had time to hear the answer."""
        if self.in_head or self.in_body:
            self._linger()
        elif not self.lingers:
            self._close()

    def refuse(self, answer: Refusal) -> None:
        """Answer below the routes and close, after every answer that is owed to earlier requests."""
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
                self.pipeline.popleft()  # the newest: it was never begun and will not be
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
        except httptools.HttpParserUpgrade as error:  # asked for another protocol: the answer in this one is allowed
            rest = data[error.args[0] :]
            if rest:
                self._feed(rest)

    def _head_is_open(self, size: int) -> None:
        limits = self.bounds
        if self.open_for < 0:
            self.open_for = 0  # what came before belongs to earlier requests too; the whole is measured at the end
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
        elif self.flow.read_paused:  # it may have come, and is not read yet
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
        """Say that nothing more comes, and drop what the client still sends: closing now would take the answer back."""
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
