"""The protocol at the socket: it reads each request head, answers hot requests, and gives all others to the stock protocol.

Heads are read by one strict parser (`head_parser.py`). What it does not accept is checked by `heads.py`, and then given to
uvicorn's protocol (`stock.py`) with the bytes as they came, like every request whose route is not hot. So is a hot request
whose body is late or too long. A request is begun when the one before it has been answered; until then what follows on the
connection waits, and no more is read. A middleware could not enforce the limits: it runs after the head was read, and never
sees a connection that sends no head.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from riata.web.auth.gate import Caller
from riata.web.server import bounds
from riata.web.server.answers import Answer
from riata.web.server.bodies import BODY_WAIT_S, BodyConnection, PendingBody, marks_of
from riata.web.server.body import counted_bytes
from riata.web.server.bounds import ListenerState, Refused
from riata.web.server.fast_path import CLOSE_HEADER, FastPath
from riata.web.server.head_parser import HOST, IN_CHUNKS, LENGTH, LINES, LINES_BYTES, TARGET, TARGET_STOP, Words
from riata.web.server.heads import CHUNKED, HeadChecker, check_host
from riata.web.server.request import Request
from riata.wire.workspace import PaddedBuffer

FIRST_LINE_BYTES: Final = 64  # of a request line without its target
HEAD_END: Final = b"\r\n\r\n"


class Connection(BodyConnection):
    """One connection. `fast` is None if the fast path is off: then the stock protocol answers everything."""

    def __init__(
        self, front: ListenerState, fast: FastPath | None, config: uvicorn.Config, server_state: ServerState,
        app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:  # fmt: skip
        super().__init__(front, fast, config, server_state, app_state, _loop)
        self.caller = Caller()
        self.waiting: Request | None = None  # complete; its handler will call `reply`
        self._checker: HeadChecker | None = None
        self._host = b""  # the last one that was checked: a connection sends the same every time
        self._begun = 0  # requests since bytes arrived

    # -- called by the transport

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        if self.discarding:
            self.drop(len(data))
        else:
            self._begun = 0
            self._process(data)

    def eof_received(self) -> bool:
        """Answer complete requests although the client sends no more; refuse an incomplete one."""
        self.ended = True
        if self.discarding:
            return False
        if self.in_head or self.in_body:
            self.refuse(bounds.INCOMPLETE)
        return self.busy or bool(self.rest)

    def pause_writing(self) -> None:
        """The client reads slowly: begin no further request."""
        super().pause_writing()
        if self.stock is not None:
            self.stock.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough: go on."""
        super().resume_writing()
        if self.stock is not None:
            self.stock.resume_writing()
        if self.rest and not self.busy and not self.in_head:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all state, with the part of a body that has arrived; tell the stock protocol."""
        super().connection_lost(exc)
        self.rest, self._checker = b"", None
        if self.pending is not None:
            self.pending = self.long_body = None
            self.release()
        if self.stock is not None:
            self.stock.end()

    # -- called by the server

    def shutdown(self) -> None:
        """Close after the answer that is owed."""
        self.stopping = True
        if not self.busy:
            self.leave()
        elif self.stock is not None and self.stock.owes:
            self.stock.stop()

    def sweep(self, now: float) -> None:
        """Enforce the deadlines. The part of a slow long body that has arrived is processed as if it had just come."""
        if self.long_body is not None and now > self.long_body.until:
            self.long_body.give_back()
        super().sweep(now)

    # -- called by handlers, the stock protocol and long bodies

    def reply(self, answer: Answer) -> None:
        """Answer the waiting request. If its connection is lost, only count it."""
        request, self.waiting = self.waiting, None
        if request is None or self.fast is None:
            raise RuntimeError("no request of this connection waits for an answer")
        self.release()
        self.busy = False
        if self.lost:
            self.fast.note(request, answer)
        else:
            self._write(self.fast, request, answer)
            self._next()

    def stock_answered(self) -> None:
        """The stock protocol has written its answer."""
        self.busy = False
        self.server_state.total_requests += 1
        if self.in_body and not self.closing:
            self.deadline = self.loop.time() + self.bounds.linger_s  # answered before its body came, which is read and dropped
        else:
            self._next()

    # -- heads

    def _process(self, data: bytes) -> None:
        """Process bytes in the order in which they arrived, as far as no earlier request is unanswered."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        try:
            while data and not self.discarding:
                if self.in_body:
                    data = self.take_body(data)
                elif self.busy or self.write_paused:
                    self.rest = data
                    self.read(False)
                    return
                else:
                    data = self._take_head(data)
        except Refused as refused:
            self.rest = b""
            self.refuse(refused.answer)

    def _take_head(self, data: bytes) -> bytes:
        """Begin the request whose head is at the beginning of `data`, if it is complete. Returns what follows it."""
        checker, fast = self._checker, self.fast
        if fast is not None and (checker is None or data.find(HEAD_END, max(checker.fed - len(HEAD_END) + 1, 0)) >= 0):
            end = fast.heads.parse(data)
            if end > 0:
                words, limits = fast.heads.words(), self.bounds
                if (
                    words[LINES_BYTES] <= limits.head_bytes_max
                    and words[LINES] <= limits.headers_max
                    and words[TARGET_STOP] - words[TARGET] <= limits.target_bytes_max
                ):
                    self._checker, self.in_head = None, False
                    return self._begin_plain(fast, data, end, words)
        return self._check_head(data)

    def _check_head(self, data: bytes) -> bytes:
        """Check a head that is incomplete or not plain. A complete one goes to the stock protocol."""
        checker = self._checker
        if checker is None:
            data = data.lstrip(b"\r\n")
            if not data:
                return b""
            checker = self._checker = HeadChecker(self.bounds, self.front.hosts)
        end = data.find(HEAD_END, max(checker.fed - len(HEAD_END) + 1, 0))
        stop = len(data) if end < 0 else end + len(HEAD_END)
        checker.feed(data[checker.fed : stop])
        if checker.complete:
            self._checker, self.in_head = None, False
            self._count_request()
            self.begin_stock(data[:stop], checker.length, {})
            return data[stop:]
        if end >= 0:  # the preface of HTTP/2
            raise Refused(bounds.MALFORMED)
        if len(checker.target) > self.bounds.target_bytes_max:
            raise Refused(bounds.TARGET_TOO_LONG)
        if len(data) - len(checker.target) > self.bounds.head_bytes_max + FIRST_LINE_BYTES:
            raise Refused(bounds.HEAD_TOO_LARGE)
        if not self.in_head:
            self.in_head = True
            self.deadline = self.loop.time() + self.bounds.head_s
        self.rest = data
        return b""

    def _begin_plain(self, fast: FastPath, data: bytes, end: int, words: Words) -> bytes:
        """Begin a request with a plain head of `end` bytes. Returns what follows it in `data`."""
        host = data[words[HOST] : words[HOST + 1]]
        if host != self._host:
            check_host(host, self.front.hosts)
            self._host = host
        self._count_request()
        length = CHUNKED if words[LENGTH] == IN_CHUNKS else max(words[LENGTH], 0)
        request = fast.find(data, words)
        if request is None or length > request.route.bytes_max:
            self.begin_stock(data[:end], length, {})
            return data[end:]
        stop = end + length
        refusal = fast.admit(request, data, words, self.caller)
        if len(data) >= stop and length >= 0:
            if length:
                request.body = data[end:stop]
            answer = refusal or fast.handle(request, self.reply)
            if isinstance(answer, Answer):
                self._write(fast, request, answer)
            else:
                self._wait(fast, request)
            return data[stop:]
        if refusal is not None:
            self.begin_stock(data[:end], length, {})  # which refuses before the body
        elif not fast.is_welcome(request) or not fast.bodies.has_room(counted_bytes(len(data) - end)):
            self.begin_stock(data[:end], length, marks_of(request))
        else:
            self.busy = self.in_body = True
            self.pending = PendingBody(request, data[:end], length, self.loop.time() + BODY_WAIT_S)
            self.deadline = self.loop.time() + self.bounds.body_idle_s
            if len(data) == end and length > 0:
                self.read_long(self.pending)
        return data[end:]

    def _count_request(self) -> None:
        self._begun += 1
        if self._begun > self.bounds.pipelined_max + 1:
            raise Refused(bounds.PIPELINE_FULL)
        self.deadline = math.inf

    # -- answers

    def answer_pending(self, fast: FastPath, pending: PendingBody, body: bytes | PaddedBuffer) -> None:
        """The body of the pending request is complete."""
        request, self.pending, self.in_body = pending.request, None, False
        request.body = body
        self.deadline = math.inf
        answer = fast.handle(request, self.reply)
        if isinstance(answer, Answer):
            self.release()
            self.busy = False
            self._write(fast, request, answer)
        else:
            self._wait(fast, request)

    def _wait(self, fast: FastPath, request: Request) -> None:
        """A request will be answered later, by a thread that needs the interpreter's lock."""
        self.busy, self.waiting = True, request
        fast.awake.rest()

    def _write(self, fast: FastPath, request: Request, answer: Answer) -> None:
        closing = self.stopping or CLOSE_HEADER in answer.headers
        self.server_state.total_requests += 1
        self.wire.write(fast.written(answer, self.server_state.default_headers, closing))
        fast.note(request, answer)
        if closing:
            self.leave()
        else:
            self.deadline = self.loop.time() + self.bounds.idle_s
            if not request.is_long:
                fast.awake.stay(self.loop)

    def _next(self) -> None:
        """An answer was given: process what has waited for it."""
        if self.closing:
            return
        self.idle()
        if self.rest:
            self._process(b"")
        if not self.rest or self.in_head:
            self.read(True)
            if self.ended and not self.busy and not self.discarding:
                if self.in_head or self.in_body:
                    self.refuse(bounds.INCOMPLETE)
                else:
                    self.leave()
