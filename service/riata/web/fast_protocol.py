"""The protocol with the fast lane: hot requests are answered from the parser's callback, all others as before.

A hot request that is answered at once mostly lives inside one call of `data_received`: its head and body came together, nothing
else of its connection is under way, and when the call ends the answer is written. Where its body comes later, as many clients
send it, or its answer does, it holds the place of uvicorn's cycle meanwhile (`StandIn`), so that deadlines, pipelined requests, a
lost connection and the stop of the server see what they always see. Whatever does not fit becomes an ordinary cycle, in the order
in which it came.

A connection that says one head again and again is heard by an `Audience` instead, past the parser, and `answer` is called with
what it asks for, until it says something else.
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
from riata.web.gate import ADMITTED, KEY, Caller
from riata.web.heads import CODING_SEEN, NO_TRAILERS, UPGRADE_SEEN
from riata.web.long_body import WORTH_BYTES, LongBody
from riata.web.protocol import BoundedProtocol
from riata.wire.padded_buffer import PaddedBuffer

BODY_WAIT_S: Final = 1.0  # for a body that comes after its head; what takes longer goes to a route, which has a deadline for it
OK: Final = 200
LENGTH_DIGITS_MAX: Final = 18
AT_ONCE_MAX: Final = 16  # of one connection before others have their turn; further ones wait as pipelined requests do


class _Unheard:
    """An event that nobody waits for."""

    def set(self) -> None:
        """Do nothing."""


_UNHEARD: Final = _Unheard()


class StandIn:
    """A hot request whose body or answer is on its way, as the rest of the protocol sees it: a cycle that runs."""

    __slots__ = ("body", "disconnected", "held", "keep_alive", "message_event", "more_body", "request", "response_complete",
                 "response_started", "waits_until")  # fmt: skip

    def __init__(self, request: FastRequest, waits_until: float) -> None:
        self.request: FastRequest | None = request  # None once it is answered: the connection keeps the last cycle, not its body
        self.waits_until = waits_until
        self.held = 0  # bytes of its body that were counted among all bodies under way
        self.body = b""
        self.more_body = self.disconnected = self.response_started = self.response_complete = False
        self.keep_alive = True
        self.message_event = _UNHEARD


class FastProtocol(BoundedProtocol):
    """One connection with a fast lane. `fast` is shared by all of a listener."""

    def __init__(self, front: ListenerState, fast: FastLane, **named: Any) -> None:
        super().__init__(front, **named)
        self.fast = fast
        self.hot: FastRequest | None = None  # its head has come, and not all of its body
        self.stand_in: StandIn | None = None
        self.long_body: LongBody | None = None  # what its body is read by, past the parser
        self.caller = Caller()
        self.socket = -1
        self.known: Again | None = None  # the head that was learnt last, which it says as long as it is heard
        self.begun = 0  # heads that began in what was received last
        self.taken: FastRequest | None = None  # the last in it that was answered at once, or taken to be answered later

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self.socket = transport.get_extra_info("socket").fileno()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Have it parsed, and remember the head of a request that was all that came."""
        self.begun, self.taken = 0, None
        super().data_received(data)
        if self.taken is not None and self.begun == 1 and not (self.deaf or self.in_head or self.in_body):
            self._learn(data, self.taken)

    def answer(self, asked: bytes, started: float) -> bool:
        """Answer a request that was heard (`web/audience.py`), or have it answered later; false where it has to be read."""
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
        """The client takes its time; what it sends meanwhile is parsed, and waits."""
        self.fast.audience.leave(self)
        super().pause_writing()

    def on_body(self, body: bytes) -> None:
        """Part of a body."""
        hot = self.hot
        if hot is not None and self.stand_in is not None and not self._hold(self.stand_in, self.body_bytes + len(body)):
            self._take_the_other_way()  # which says that there is no room
            hot = None
        if hot is None:
            super().on_body(body)
        else:
            self.body_bytes += len(body)
            hot.add(body)

    def on_message_complete(self) -> None:
        """The request is whole: answer it, if it is hot."""
        hot = self.hot
        if hot is None or self.body_bytes > hot.line.bytes_max:
            self._take_the_other_way()
            super().on_message_complete()
        else:
            hot.join()
            self._ask(hot)

    def reply(self, answer: Answer) -> None:
        """Give the answer to the request that waits for it; nothing but the count where its connection is lost."""
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
        """A long body has come to its end, unseen by the parser, which would wait for it: another one goes on behind it."""
        hot, self.long_body = cast(FastRequest, self.hot), None
        hot.past = body
        self.body_bytes = len(body)
        self.deadline = math.inf
        self._ask(hot)  # which may need to know of the head what the parser knows
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def parted(self, came: bytes) -> None:
        """A long body goes to the parser from here on, which counts it by its parts."""
        self.long_body = None
        if self.stand_in is not None:
            self._hold(self.stand_in, self.body_bytes)
        if came:
            self.data_received(came)

    def sweep(self, now: float) -> None:
        """End what has taken too long; a body that comes slowly goes to a route, as far as it has come."""
        if self.long_body is not None and now > self.long_body.until:
            self.long_body.give_back()
        super().sweep(now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it, and the part of a body that has come."""
        self.fast.audience.leave(self)
        if self.hot is not None and self.stand_in is not None:
            self.hot = self.long_body = self.stand_in.request = None
            self.fast.bodies.give_bytes(self.stand_in.held)
        super().connection_lost(exc)

    # -- what the parts below it leave open

    def _open(self) -> None:
        """Begin a head; the scope of ASGI is made once it is known to be needed."""
        self.begun += 1
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def _start(self) -> None:
        """The head is whole and good: keep what is hot, begin a cycle for everything else."""
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
        """The body did not come with the head, or not all of it: it is waited for here, and not for long."""
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
        """Remember the head of a request that was all that came. Who says it twice is expected to say it again."""
        last, self.known = self.known, self.fast.learn(data, taken, self.url, self.bounds.target_bytes_max)
        if last is not None and self.known is not None and last.is_like(self.known):
            self.fast.audience.enter(self)

    def _ask(self, hot: FastRequest) -> None:
        """Have a hot request answered, now or later, or by a cycle."""
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
        """A request that is whole is answered later, by a thread that needs the interpreter's lock for it."""
        self.fast.awake.rest()
        self._stand_in(request)

    def _fits(self, request: FastRequest) -> bool:
        """Whether the body that was announced is one that is waited for here, and there is room for what came of it."""
        if announced_bytes(request) > request.line.bytes_max:
            return False
        return self.fast.bodies.held + counted_bytes(self.body_bytes) <= self.fast.bodies.bytes_max

    def _read_long(self, request: FastRequest, waiting: StandIn) -> None:
        """Read the rest of a body past the parser, where that is worth it. All of it is counted at once, while all bodies take
        half of the room at the most: by words alone nobody keeps others out."""
        length, bodies = announced_bytes(request), self.fast.bodies
        rest = length - self.body_bytes
        if rest >= WORTH_BYTES and 2 * (bodies.held + rest) <= bodies.bytes_max and self._hold(waiting, length):
            request.join()
            until = min(waiting.waits_until, self.loop.time() + self.bounds.body_idle_s / 2)  # bytes are not seen one by one
            self.long_body = LongBody(self, self.wire, request.body, length, until)

    def _hold(self, waiting: StandIn, size: int) -> bool:
        """Have `size` bytes of a body counted; false, and nothing done, if all bodies together are too long."""
        more = counted_bytes(size) - waiting.held
        counted = self.fast.bodies.take_bytes(more)
        waiting.held += more if counted else 0
        return counted

    def _stand_in(self, request: FastRequest) -> None:
        """Have the request hold the place of a cycle."""
        self.stand_in = StandIn(request, self.loop.time() + BODY_WAIT_S)
        self.cycle = self.running = cast(RequestResponseCycle, self.stand_in)
        if self.in_body:  # a body that came in one part is not counted
            self._hold(self.stand_in, self.body_bytes)

    def _stand_aside(self) -> bool:
        """The answer is there: leave the place, if it was held. Returns whether the connection may be kept."""
        waited, self.stand_in = self.stand_in, None
        if waited is None:
            return True
        self.fast.bodies.give_bytes(waited.held)
        waited.request = None
        waited.response_complete = True
        return waited.keep_alive

    def _take_the_other_way(self) -> None:
        """Make a cycle of the hot request, if there is one."""
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
    """How long a body is said to be; 0 where that is not said."""
    announced = next((value for name, value in request.header_list if name == b"content-length"), b"0")
    return int(announced) if len(announced) <= LENGTH_DIGITS_MAX else sys.maxsize
