"""The protocol at the socket: it reads requests, answers those to hot routes, and has an ASGI application answer all others.

Every head is read and checked by `heads.py`, and begins one `Request`. A request to a hot route is answered by its handler,
unless its body is late or too long. Every other is answered by the ASGI application (`asgi.py`). A request is begun when the one
before it has been answered; until then what follows on the connection waits, and no more is read.

What a connection may do next is a table, `MOVES`. Its deadlines are plain numbers that `Server` checks a few times a second;
a request sets no timer. A middleware could not enforce the limits: it runs after the head was read, and never sees a connection
that sends no head.
"""

from __future__ import annotations

import asyncio
import math
from enum import IntEnum
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from riata.web.auth.gate import ADMITTED, Caller
from riata.web.auth.keys import KEY
from riata.web.server import bounds
from riata.web.server.answers import CLOSE_HEADER, Answer
from riata.web.server.asgi import AsgiCall
from riata.web.server.body import counted_bytes
from riata.web.server.bounds import ListenerState, Refusal, Refused
from riata.web.server.fast_path import FastPath
from riata.web.server.framing import WORTH_BYTES, Body, LongBody, body_of
from riata.web.server.heads import HeadReader
from riata.web.server.request import CHUNKED, Aside, Request
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.workspace import PaddedBuffer


class State(IntEnum):
    """What a connection is doing."""

    IDLE = 0  # no request is being received or answered
    HEAD = 1  # a part of a head has arrived
    BODY = 2  # a head has arrived and a part of its body is still to come; an answer is owed
    ANSWERING = 3  # a request has arrived; an answer is owed
    UNREAD = 4  # a request was answered before its body had arrived, which is read and dropped
    LINGERING = 5  # no further request is answered: EOF was sent, and what the client still sends is dropped
    CLOSING = 6  # the transport closes once everything written was sent
    LOST = 7  # the transport is closed


IDLE, HEAD, BODY, ANSWERING, UNREAD, LINGERING, CLOSING, LOST = State

MOVES: Final[dict[State, frozenset[State]]] = {
    IDLE: frozenset({HEAD, BODY, ANSWERING, LINGERING, CLOSING, LOST}),
    HEAD: frozenset({IDLE, LINGERING, CLOSING, LOST}),
    BODY: frozenset({ANSWERING, UNREAD, LINGERING, CLOSING, LOST}),
    ANSWERING: frozenset({IDLE, CLOSING, LOST}),
    UNREAD: frozenset({IDLE, LINGERING, CLOSING, LOST}),
    LINGERING: frozenset({CLOSING, LOST}),
    CLOSING: frozenset({LOST}),
    LOST: frozenset(),
}
INCOMPLETE: Final = frozenset({HEAD, BODY, UNREAD})  # a part of a request is still to come

BODY_WAIT_S: Final = 1.0  # to wait for a body after its head; a slower one goes to the ASGI route, which has a deadline
HELD_BYTES_MAX: Final = 64 * 2**10  # of a body; if more of it waits for the application, no more is read


class Connection(asyncio.Protocol):
    """One connection. `front` is shared by all of a listener. `fast` is None if the fast path is off: then the ASGI application
    answers everything.

    ended   : the client has sent EOF
    stopping: the server shuts down: the connection closes after the answer that it owes
    request : the hot request whose body or answer is awaited
    call    : the request that the ASGI application answers
    body    : what arrives of the body of either
    rest    : received, and not processed: it waits for an answer, or until the client has taken one
    """

    def __init__(
        self, front: ListenerState, fast: FastPath | None, config: uvicorn.Config, server_state: ServerState,
        app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:  # fmt: skip
        self.front = front
        self.bounds = front.bounds
        self.fast = fast
        self.loop = _loop or asyncio.get_running_loop()
        self.wire: asyncio.Transport = None  # type: ignore[assignment]
        self.caller = Caller()
        self.state = IDLE
        self.ended = self.stopping = False
        self.write_paused = self.read_paused = False
        self.deadline = math.inf
        self.take_by = math.inf  # deadline for taking the whole answer
        self.take_next_by = math.inf  # deadline for taking some more of it
        self.request: Request | None = None
        self.call: AsgiCall | None = None
        self.body = Body(0)
        self.long_body: LongBody | None = None
        self.rest = b""
        self._app = cast(ASGIApp, config.loaded_app)
        self._app_state = app_state
        self._server_state = server_state
        self._heads = HeadReader(front.bounds, front.hosts)
        self._begun = 0  # requests since bytes arrived
        self._until = math.inf  # a body of a hot request that has not arrived by then goes to the application
        self._counted = 0  # bytes of the body of a hot request that are counted in `Bodies`
        self._dropped = 0  # bytes
        self._unsent = 0  # bytes of an answer, when the client was last seen to take some

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection, or refuse it if too many are open."""
        self.wire = cast(asyncio.Transport, transport)
        connections = self._server_state.connections
        connections.add(self)  # type: ignore[arg-type]
        self.deadline = self.loop.time() + self.bounds.head_s
        if transport.get_extra_info("socket").fileno() >= self.front.files_max:
            self.front.refused[bounds.CONNECTIONS_FULL.code] += 1
            self.wire.write(bounds.CONNECTIONS_FULL.raw)
            self._close()
        elif len(connections) - self.front.lingering > self.bounds.connections_max:
            self.refuse(bounds.CONNECTIONS_FULL)

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        if self.is_closing:
            self._drop(len(data))
        else:
            self._begun = 0
            self._process(data)

    def eof_received(self) -> bool:
        """Answer complete requests although the client sends no more; refuse an incomplete one."""
        self.ended = True
        if self.state in INCOMPLETE:
            self.refuse(bounds.INCOMPLETE)
        return self.state is ANSWERING or bool(self.rest)

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than it is written: set deadlines for that, and begin no further request."""
        self.write_paused = True
        self._unsent = self.wire.get_write_buffer_size()
        self.take_next_by = self.loop.time() + self.bounds.write_s
        self.take_by = self.take_next_by + self._unsent / self.bounds.write_bytes_per_s
        if self.call is not None:
            self.call.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough of its answer: go on."""
        self.write_paused = False
        self.take_by = self.take_next_by = math.inf
        if self.call is not None:
            self.call.resume_writing()
        if self.rest and self.state is IDLE:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Drop all state, with the part of a body that has arrived; tell the application."""
        self._end(LOST)
        if self.call is not None:
            self.call.end()
        self.deadline = self.take_by = self.take_next_by = math.inf
        self._server_state.connections.discard(self)

    # -- called by the server

    def shutdown(self) -> None:
        """Close after the answer that is owed."""
        self.stopping = True
        if self.state not in (BODY, ANSWERING):
            self.leave()

    def sweep(self, now: float) -> None:
        """Enforce the deadlines. The part of a slow long body that has arrived is processed as if it had just come."""
        if self.long_body is not None and now > self.long_body.until:
            self.long_body.give_back()
        if now > self.take_next_by:
            unsent = self.wire.get_write_buffer_size()
            if unsent < self._unsent and now <= self.take_by:
                self._unsent = unsent
                self.take_next_by = now + self.bounds.write_s
            else:
                self.front.refused["slow_reader"] += 1
                self.abort()
        elif now > self.deadline:
            self._expire(now)

    def end_unfinished(self) -> None:
        """On shutdown, refuse a request that is still being sent; complete ones are answered."""
        if self.state in INCOMPLETE:
            self.refuse(bounds.STOPPING)

    def abort(self) -> None:
        """Abort the connection; the unsent part of an answer is lost."""
        self._end(CLOSING)
        self.deadline = self.take_by = self.take_next_by = math.inf
        self.wire.abort()

    # -- called by handlers, the ASGI call and long bodies

    @property
    def is_closing(self) -> bool:
        """Whether no further request is answered; received bytes are dropped."""
        return self.state >= LINGERING

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that every answer has; a new list each second."""
        return self._server_state.default_headers

    def reply(self, answer: Answer | Aside) -> None:
        """Answer the waiting request, or have it answered later after all. If its connection is lost, only count it."""
        request = self.request
        if request is None or self.fast is None:
            raise RuntimeError("no request of this connection waits for an answer")
        if isinstance(answer, Aside):
            self.fast.set_aside(answer, request, self.reply)
            return
        self.request = None
        self._release()
        if self.state is ANSWERING:
            self._write(self.fast, request, answer)
            self._next()
        else:
            self.fast.note(request, answer)

    def answered(self, closing: bool) -> None:
        """An answer was written: wait for the rest of the body, or for the next request. closing: it was the last answer"""
        call, self.call = self.call, None
        if self.state >= LINGERING:
            return
        if closing:
            self.leave()
        elif self.state is BODY:
            self.body.take()
            self._to(UNREAD)
            self.deadline = self.loop.time() + self.bounds.linger_s
        else:
            if self.state is ANSWERING:
                self._to(IDLE)
            self.deadline = self.loop.time() + self.bounds.idle_s
        if call is not None:
            self._next()

    def read_more(self) -> None:
        """Read from the socket, unless something waits."""
        if not self.rest:
            self._read(True)

    def whole(self, body: PaddedBuffer) -> None:
        """A long body is complete."""
        self.long_body = None
        if self.state is BODY:
            self._complete(body)

    def parted(self, came: bytes) -> None:
        """A long body arrives in parts from here on, and is counted by them."""
        self.long_body = None
        self._release()
        self.body = body_of(self.body.length)
        self.data_received(came)

    def leave(self) -> None:
        """Close: at once if no request is incomplete, otherwise after a time in which the client can read the answer."""
        if self.state in INCOMPLETE:
            self._linger()
        elif not self.is_closing:
            self._close()

    def refuse(self, answer: Refusal) -> None:
        """Refuse the request that is being sent, and close. All earlier requests have been answered."""
        self.front.refused[answer.code] += 1
        self.rest = b""
        if self.state is BODY and not self._forget():
            self.abort()
            return
        self.wire.write(answer.raw)
        if self.ended:
            self._close()
        else:
            self._linger()

    # -- requests

    def _process(self, data: bytes) -> None:
        """Process bytes in the order in which they arrived, as far as no earlier request is unanswered."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        try:
            while data:
                state = self.state
                if (state is IDLE or state is HEAD) and not self.write_paused:
                    data = self._take_head(data)
                elif state is BODY or state is UNREAD:
                    data = self._take_body(data)
                elif self.is_closing:
                    return
                else:
                    self.rest = data
                    self._read(False)
                    return
        except Refused as refused:
            self.refuse(refused.answer)

    def _take_head(self, data: bytes) -> bytes:
        """Take bytes of a head, and begin its request once it is complete. Returns what is left of `data`."""
        fast = self.fast
        request, data = self._heads.feed(data)
        if request is None:
            if self.state is IDLE and self._heads.has_begun:
                self._to(HEAD)
                self.deadline = self.loop.time() + self.bounds.head_s
            return data
        if self.state is HEAD:
            self._to(IDLE)
        self._begun += 1
        if self._begun > self.bounds.pipelined_max + 1:
            raise Refused(bounds.PIPELINE_FULL)
        self.deadline = math.inf
        if fast is not None and fast.find(request):
            return self._begin_hot(fast, request, data)
        self._await_body(request.length)
        self._call_app(request, {})
        return data

    def _begin_hot(self, fast: FastPath, request: Request, data: bytes) -> bytes:
        """Begin a request to a hot route whose head is followed by `data`. Returns what is left of it."""
        refusal, length = fast.admit(request, self.caller), request.length
        if 0 <= length <= len(data):
            if length:
                request.body, data = data[:length], data[length:]
            answer = refusal or fast.handle(request, self.reply)
            if isinstance(answer, Answer):
                self._write(fast, request, answer)
            else:
                self._to(ANSWERING)
                self._wait(fast, request)
            return data
        self._await_body(length)
        refusal = refusal or fast.refuse(request)
        if refusal is not None:
            self._write(fast, request, refusal)
        elif not fast.bodies.has_room(counted_bytes(len(data))):
            self._call_app(request, marks_of(request))
        else:
            self.request, self._until = request, self.loop.time() + BODY_WAIT_S
            if not data and length != CHUNKED:
                self._read_long(fast)
        return data

    def _await_body(self, length: int) -> None:
        self.body = body_of(length)
        self._to(BODY if length else ANSWERING)
        if length:
            self.deadline = self.loop.time() + self.bounds.body_idle_s

    def _take_body(self, data: bytes) -> bytes:
        """Take bytes of the current body. Returns what follows it in `data`."""
        body, before = self.body, self.body.size
        rest = data[body.feed(data) :]
        if self.state is UNREAD:
            body.take()
            self._drop(len(data) - len(rest))
            if body.done and self.state is UNREAD:
                self._dropped = 0
                self._to(IDLE)
                self.deadline = self.loop.time() + self.bounds.idle_s
        elif self.request is not None and self.fast is not None:
            self._collect(self.fast, self.request)
        elif self.call is not None:
            self.call.came()
            if body.held > HELD_BYTES_MAX:
                self._read(False)
        if self.state is BODY:
            if body.done:
                self._to(ANSWERING)
                self.deadline = math.inf
            elif body.size > before:
                self.deadline = self.loop.time() + self.bounds.body_idle_s
        return rest

    def _collect(self, fast: FastPath, request: Request) -> None:
        """A part of the body of a hot request has arrived: answer the request if it was the last one."""
        body = self.body
        in_time = self.loop.time() <= self._until and (body.length != CHUNKED or body.size <= INLINE_BYTES_MAX)
        if not self._count(fast, body.size) or not in_time:
            self.request = None
            self._release()
            self._call_app(request, marks_of(request))
        elif body.done:
            self._complete(body.take())
        elif body.length != CHUNKED:
            self._read_long(fast)

    def _read_long(self, fast: FastPath) -> None:
        """Read the rest of a body into one buffer if it is long enough. All of it is counted at once, but only while all bodies
        together take at most half of `bodies_bytes_max`: an announced length alone cannot keep other bodies out."""
        body = self.body
        rest = body.length - body.size
        if rest < WORTH_BYTES or 2 * (fast.bodies.held + rest) > fast.bodies.bytes_max:
            return
        if self._count(fast, body.length):
            until = min(self._until, self.loop.time() + self.bounds.body_idle_s / 2)  # progress is not seen byte by byte
            self.long_body = LongBody(self, self.wire, body.take(), body.length, until)

    def _count(self, fast: FastPath, size: int) -> bool:
        """Count `size` bytes of a body. Returns false, without counting, if all bodies together are too large."""
        more = counted_bytes(size) - self._counted
        counted = fast.bodies.take_bytes(more)
        self._counted += more if counted else 0
        return counted

    def _release(self) -> None:
        """Release the bytes that are counted for the body of a hot request."""
        if self._counted and self.fast is not None:
            self.fast.bodies.give_bytes(self._counted)
            self._counted = 0

    # -- answers

    def _complete(self, body: bytes | PaddedBuffer) -> None:
        """The body of the hot request is complete: answer it."""
        request, self.request = self.request, None
        if request is None or self.fast is None:
            raise RuntimeError("no request of this connection waits for its body")
        request.body = body
        self._to(ANSWERING)
        self.deadline = math.inf
        answer = self.fast.handle(request, self.reply)
        if isinstance(answer, Answer):
            self._release()
            self._write(self.fast, request, answer)
        else:
            self._wait(self.fast, request)

    def _wait(self, fast: FastPath, request: Request) -> None:
        """A hot request will be answered later, by a thread that needs the interpreter's lock."""
        self.request = request
        fast.awake.rest()

    def _call_app(self, request: Request, more: dict[str, Any]) -> None:
        """Have the ASGI application answer. `more` is added to the scope."""
        self.call = AsgiCall(self, request, self.body)
        task = self.loop.create_task(self.call.run(self._app, {"state": self._app_state.copy(), **more}))
        tasks = self._server_state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _write(self, fast: FastPath, request: Request, answer: Answer) -> None:
        closing = self.stopping or not request.keep_alive or CLOSE_HEADER in answer.headers
        self.wire.write(fast.written(answer, self._server_state.default_headers, closing))
        fast.note(request, answer)
        self.answered(closing)
        if not closing and not request.is_long:
            fast.awake.stay(self.loop)

    def _next(self) -> None:
        """An answer was given: process what has waited for it."""
        if self.rest and self.state is IDLE:
            self._process(b"")
        if self.rest or self.is_closing:
            return
        self._read(True)
        if self.ended and self.state is IDLE:
            self.leave()
        elif self.ended and self.state in INCOMPLETE:
            self.refuse(bounds.INCOMPLETE)

    # -- states

    def _to(self, state: State) -> None:
        if state not in MOVES[self.state]:
            raise RuntimeError(f"a connection that is {self.state.name} cannot become {state.name}")
        self.state = state

    def _end(self, state: State) -> None:
        """Begin to close, or go on with it."""
        if self.state is BODY:
            self._forget()
        elif self.state is LINGERING:
            self.front.lingering -= 1
        if self.state is not state:
            self._to(state)
        self.rest = b""

    def _forget(self) -> bool:
        """Give up the request whose body is incomplete. Returns whether nothing of an answer to it has been written."""
        call, self.call, self.request = self.call, None, None
        self._release()
        if call is not None:
            call.end()
        return call is None or not call.started

    def _linger(self) -> None:
        """Send EOF and drop what the client still sends: closing at once could reset the connection and lose the answer."""
        if self.wire.is_closing() or self.front.lingering >= self.bounds.lingering_max:
            self._close()
            return
        self._end(LINGERING)
        self.front.lingering += 1
        self._read(True)
        self.deadline = self.loop.time() + self.bounds.linger_s + self._taking_s()
        self.wire.write_eof()

    def _close(self) -> None:
        self._end(CLOSING)
        self.deadline = self.loop.time() + self.bounds.write_s + self._taking_s()
        self.wire.close()

    def _expire(self, now: float) -> None:
        if self.is_closing or self.wire.is_closing() or self.state is UNREAD:
            self.abort()
        elif self.read_paused:  # the body may have arrived and not been read yet
            self.deadline = now + self.bounds.body_idle_s
        elif self.state is HEAD:
            self.refuse(bounds.HEAD_TOO_SLOW)
        elif self.state is BODY:
            self.refuse(bounds.BODY_TOO_SLOW)
        else:
            self.leave()

    def _drop(self, size: int) -> None:
        """Count bytes that are read and dropped; abort the connection beyond the limit."""
        self._dropped += size
        if self._dropped > self.bounds.linger_bytes_max:
            self.abort()

    def _read(self, on: bool) -> None:
        """Read from the socket, or stop reading."""
        if on is self.read_paused and self.state is not LOST and not self.wire.is_closing():
            self.read_paused = not on
            if on:
                self.wire.resume_reading()
            else:
                self.wire.pause_reading()

    def _taking_s(self) -> float:
        return self.wire.get_write_buffer_size() / self.bounds.write_bytes_per_s


def marks_of(request: Request) -> dict[str, Any]:
    """Return what the scope of an admitted request says about that."""
    return {ADMITTED: True} if request.key is None else {ADMITTED: True, KEY: request.key}
