"""The HTTP protocol with the fast path: hot requests are answered from the parser's callback, all others by uvicorn's cycle.

Most hot requests are handled within one call of `data_received`: head and body arrive together, no other request of the
connection is in progress, and the answer is written before the call ends. If the body arrives later, as with many clients, or
the answer is given later, the request takes the place of uvicorn's request-response cycle meanwhile (`StandIn`). So deadlines,
pipelining, a lost connection and the shutdown of the server work as for a cycle. A request that does not fit the fast path
becomes an ordinary cycle. Requests are answered in the order in which they arrive.

A connection that repeats one head is read by an `Audience` instead, past the parser. It calls `answer` with the document or row
of each request, until the connection sends something else.
"""

from __future__ import annotations

import asyncio
import math
import sys
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from riata.web.again import Again
from riata.web.answers import Answer
from riata.web.body import counted_bytes
from riata.web.bounds import ListenerState
from riata.web.fast_lane import CLOSE_HEADER, NOT_HERE, FastLane, FastRequest
from riata.web.gate import ADMITTED, Caller
from riata.web.heads import CODING_SEEN, NO_TRAILERS, UPGRADE_SEEN
from riata.web.keys import KEY
from riata.web.long_body import WORTH_BYTES, LongBody
from riata.web.protocol import BoundedProtocol
from riata.wire.padded_buffer import PaddedBuffer

BODY_WAIT_S: Final = 1.0  # to wait for a body after its head; a slower one goes to the ASGI route, which has a deadline
OK: Final = 200
LENGTH_DIGITS_MAX: Final = 18
AT_ONCE_MAX: Final = 16  # requests of one connection in one read; further ones are queued as pipelined requests are


class _Unheard:
    """An event without waiters."""

    def set(self) -> None:
        """Do nothing."""


_UNHEARD: Final = _Unheard()


class StandIn:
    """A hot request that waits for its body or answer. To the rest of the protocol it is a running cycle."""

    __slots__ = ("body", "disconnected", "held", "keep_alive", "message_event", "more_body", "request", "response_complete",
                 "response_started", "waits_until")  # fmt: skip

    def __init__(self, request: FastRequest, waits_until: float) -> None:
        self.request: FastRequest | None = request  # None once answered, to free the body: the connection keeps its last cycle
        self.waits_until = waits_until
        self.held = 0  # bytes of its body that are counted in `Bodies`
        self.body = b""
        self.more_body = self.disconnected = self.response_started = self.response_complete = False
        self.keep_alive = True
        self.message_event = _UNHEARD


class FastProtocol(BoundedProtocol):
    """One connection with the fast path. `fast` is shared by all connections of a listener."""

    def __init__(self, front: ListenerState, fast: FastLane, **named: Any) -> None:
        super().__init__(front, **named)
        self.fast = fast
        self.hot: FastRequest | None = None  # its head is complete, its body is not
        self.stand_in: StandIn | None = None
        self.long_body: LongBody | None = None  # reads its body past the parser
        self.caller = Caller()
        self.socket = -1
        self.known: Again | None = None  # the head learnt last; unchanged while the `Audience` reads the connection
        self.begun = 0  # heads that began in the last `data_received`
        self.taken: FastRequest | None = None  # the last request in it that was answered, or accepted to be answered later

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the connection."""
        self.socket = transport.get_extra_info("socket").fileno()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, and remember the head of a request that arrived alone."""
        self.begun, self.taken = 0, None
        super().data_received(data)
        if self.taken is not None and self.begun == 1 and not (self.deaf or self.in_head or self.in_body):
            self._learn(data, self.taken)

    def answer(self, asked: bytes, started: float) -> bool:
        """Answer a request read by `web/audience.py`, or have it answered later. Returns false if it has to be parsed."""
        known, state = self.known, self.server_state
        if known is None or self.deaf or self.stand_in is not None:
            return False
        take = known.quick.take
        if take is not None:
            if not self.fast.take(known, take, asked, started, self.caller, self.reply):
                return False
            self.deadline = math.inf
            self._wait(known.request)
            return True
        if not self.fast.say(known, asked, started, self.caller, state.default_headers, self.wire.write):
            return False
        state.total_requests += 1
        self.deadline = self.loop.time() + self.bounds.idle_s
        return True

    def pause_writing(self) -> None:
        """The client reads slowly: leave the audience. What it sends meanwhile is parsed and queued."""
        self.fast.audience.leave(self)
        super().pause_writing()

    def on_body(self, body: bytes) -> None:
        """Add a part of a body to the hot request, or pass it on."""
        hot = self.hot
        if hot is not None and self.stand_in is not None and not self._hold(self.stand_in, self.body_bytes + len(body)):
            self._take_the_other_way()  # which answers that all bodies together are too large
            hot = None
        if hot is None:
            super().on_body(body)
        else:
            self.body_bytes += len(body)
            hot.add(body)

    def on_message_complete(self) -> None:
        """The request is complete: answer it if it is hot."""
        hot = self.hot
        if hot is None or self.body_bytes > hot.line.bytes_max:
            self._take_the_other_way()
            super().on_message_complete()
        else:
            hot.join()
            self._ask(hot)

    def reply(self, answer: Answer) -> None:
        """Write the answer to the waiting request. If its connection is lost, only count it."""
        waiting = self.stand_in
        request = None if waiting is None else waiting.request
        if waiting is None or request is None:
            raise RuntimeError("no request of this connection waits for an answer")
        if waiting.disconnected:
            self._stand_aside()
            self.fast.note(request, answer.status, request.started)
            return
        waiting.response_started = True
        self._write(request, answer, self._stand_aside())
        self.on_response_complete()

    def whole(self, body: PaddedBuffer) -> None:
        """A long body is complete. The parser, which has not seen it and would wait for it, is replaced by a new one."""
        hot, self.long_body = cast(FastRequest, self.hot), None
        hot.past = body
        self.body_bytes = len(body)
        self.deadline = math.inf
        self._ask(hot)  # may need the parser's knowledge of the head
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def parted(self, came: bytes) -> None:
        """From here on a long body goes through the parser and is counted by its parts."""
        self.long_body = None
        if self.stand_in is not None:
            self._hold(self.stand_in, self.body_bytes)
        if came:
            self.data_received(came)

    def sweep(self, now: float) -> None:
        """Enforce the deadlines. The part of a slow long body that has arrived goes back to the parser."""
        if self.long_body is not None and now > self.long_body.until:
            self.long_body.give_back()
        super().sweep(now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all state, with the part of a body that has arrived."""
        self.fast.audience.leave(self)
        if self.hot is not None and self.stand_in is not None:
            self.hot = self.long_body = self.stand_in.request = None
            self.fast.bodies.give_bytes(self.stand_in.held)
        super().connection_lost(exc)

    # -- overrides of the base classes

    def _open(self) -> None:
        """Begin a head. The ASGI scope is created only when it is needed."""
        self.begun += 1
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def _start(self) -> None:
        """The head is complete and valid: keep a hot request, begin a cycle for any other."""
        parser, cycle = self.parser, self.cycle
        if (
            not self.seen & (CODING_SEEN | UPGRADE_SEEN)
            and (cycle is None or cycle.response_complete)
            and self.at_once < AT_ONCE_MAX
            and self.version == "1.1"
            and parser.should_keep_alive()
            and not (self.expect_100_continue or self.deaf or self.flow.write_paused or self.line.is_closing())
        ):
            self.hot = self.fast.find(parser.get_method(), self.url, self.headers)
        if self.hot is None:
            self._make_cycle(self.headers)

    def _body_is_open(self, size: int) -> None:
        """The body is incomplete: wait for the rest here, at most BODY_WAIT_S."""
        waits = self.stand_in
        if self.hot is not None:
            if waits is None and self._fits(self.hot) and self.fast.awaits(self.hot, self.caller):
                self._stand_in(self.hot)
            elif waits is None or self.loop.time() > waits.waits_until:
                self._take_the_other_way()
        super()._body_is_open(size)
        if waits is None and self.stand_in is not None and self.hot is not None:
            self._read_long(self.hot, self.stand_in)

    # -- the rest

    def _learn(self, data: bytes, taken: FastRequest) -> None:
        """Remember the head of a request that arrived alone. A connection that sends it twice is expected to send it again."""
        last, self.known = self.known, self.fast.learn(data, taken, self.url, self.bounds.target_bytes_max)
        if last is not None and self.known is not None and last.is_like(self.known):
            self.fast.audience.enter(self)

    def _ask(self, hot: FastRequest) -> None:
        """Have a hot request answered: now, later, or by a cycle."""
        answer = self.fast.ask(hot, self.reply, self.caller)
        if answer is NOT_HERE:
            self.hot = hot
            self._take_the_other_way()
            super().on_message_complete()
            return
        self.hot = None
        self.in_body = False
        if isinstance(answer, Answer):
            self.at_once += 1
            self.server_state.total_requests += 1
            self.deadline = self.loop.time() + self.bounds.idle_s
            if answer.status == OK and self.stand_in is None:
                self.taken = hot
            self._write(hot, answer, self._stand_aside())
        elif self.stand_in is None:
            self.taken = hot
            self._wait(hot)
        else:
            self.fast.awake.rest()

    def _wait(self, request: FastRequest) -> None:
        """A complete request will be answered later, by a thread that needs the interpreter's lock."""
        self.fast.awake.rest()
        self._stand_in(request)

    def _fits(self, request: FastRequest) -> bool:
        """Return whether the announced body is within the limit of the line, and the part that has arrived can be counted."""
        if announced_bytes(request) > request.line.bytes_max:
            return False
        return self.fast.bodies.held + counted_bytes(self.body_bytes) <= self.fast.bodies.bytes_max

    def _read_long(self, request: FastRequest, waiting: StandIn) -> None:
        """Read the rest of a body past the parser if it is long enough. All of it is counted at once, but only while all bodies
        together take at most half of `bodies_bytes_max`: an announced length alone cannot keep other bodies out."""
        length, bodies = announced_bytes(request), self.fast.bodies
        rest = length - self.body_bytes
        if rest >= WORTH_BYTES and 2 * (bodies.held + rest) <= bodies.bytes_max and self._hold(waiting, length):
            request.join()
            until = min(waiting.waits_until, self.loop.time() + self.bounds.body_idle_s / 2)  # progress is not seen byte by byte
            self.long_body = LongBody(self, self.wire, request.body, length, until)

    def _hold(self, waiting: StandIn, size: int) -> bool:
        """Count `size` bytes of a body. Returns false, without counting, if all bodies together are too large."""
        more = counted_bytes(size) - waiting.held
        counted = self.fast.bodies.take_bytes(more)
        waiting.held += more if counted else 0
        return counted

    def _stand_in(self, request: FastRequest) -> None:
        """Put a `StandIn` for the request in the place of the cycle."""
        self.stand_in = StandIn(request, self.loop.time() + BODY_WAIT_S)
        self.cycle = self.running = cast(RequestResponseCycle, self.stand_in)
        if self.in_body:  # a body that came in one part is not counted
            self._hold(self.stand_in, self.body_bytes)

    def _stand_aside(self) -> bool:
        """Remove the `StandIn`, if there is one, and release its bytes. Returns whether the connection may be kept alive."""
        waited, self.stand_in = self.stand_in, None
        if waited is None:
            return True
        self.fast.bodies.give_bytes(waited.held)
        waited.request = None
        waited.response_complete = True
        return waited.keep_alive

    def _take_the_other_way(self) -> None:
        """Turn the hot request, if there is one, into an ordinary cycle."""
        hot, self.hot = self.hot, None
        if hot is None:
            return
        hot.join()
        waited = self.stand_in
        if waited is not None:
            self._stand_aside()
        self._make_cycle(hot.header_list)
        self.headers = NO_TRAILERS
        if hot.admitted:
            scope = cast(dict[str, Any], self.scope)
            scope[ADMITTED] = True
            if hot.key is not None:
                scope[KEY] = hot.key
        if waited is not None and not waited.keep_alive:
            self.cycle.keep_alive = False  # the server was told to stop meanwhile
        if len(hot.whole):
            HttpToolsProtocol.on_body(self, bytes(hot.whole))

    def _make_cycle(self, headers: list[tuple[bytes, bytes]]) -> None:
        url, expected = self.url, self.expect_100_continue
        super()._open()
        self.url, self.expect_100_continue = url, expected
        self.headers.extend(headers)
        super()._start()

    def _write(self, request: FastRequest, answer: Answer, keep_alive: bool) -> None:
        closing = not keep_alive or CLOSE_HEADER in answer.headers
        self.line.write(self.fast.written(answer, self.server_state.default_headers, closing))
        if closing:
            self.line.close()
        self.fast.note(request, answer.status, request.started)
        if not request.is_long:
            self.fast.answered(self.loop)


def announced_bytes(request: FastRequest) -> int:
    """Return the Content-Length; 0 if there is none."""
    announced = next((value for name, value in request.header_list if name == b"content-length"), b"0")
    return int(announced) if len(announced) <= LENGTH_DIGITS_MAX else sys.maxsize
