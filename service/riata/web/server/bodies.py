"""Bodies of a connection: collected for a hot request, or passed on to the stock protocol as they come."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from riata.web.auth.gate import ADMITTED
from riata.web.auth.keys import KEY
from riata.web.server.body import counted_bytes
from riata.web.server.bounded import BoundedConnection
from riata.web.server.bounds import ListenerState
from riata.web.server.chunks import ChunkScanner, unchunk
from riata.web.server.fast_path import FastPath
from riata.web.server.heads import CHUNKED
from riata.web.server.long_body import WORTH_BYTES, LongBody
from riata.web.server.request import Request
from riata.web.server.stock import Stock
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.padded_buffer import PaddedBuffer

BODY_WAIT_S: Final = 1.0  # to wait for a body after its head; a slower one goes to the ASGI route, which has a deadline


class PendingBody:
    """A hot request whose body is incomplete: its head as it came, the parts of its body, and until when they are awaited.

    length : bytes of the body, or CHUNKED; then `chunks` finds its end, and the parts are as they were sent
    """

    __slots__ = ("chunks", "head", "length", "parts", "request", "size", "until")

    def __init__(self, request: Request, head: bytes, length: int, until: float) -> None:
        self.request = request
        self.head = head
        self.length = length
        self.chunks = ChunkScanner() if length == CHUNKED else None
        self.parts: list[bytes] = []
        self.size = 0  # bytes of the parts
        self.until = until


class BodyConnection(BoundedConnection):
    """A connection that takes bodies. Its subclass reads heads and writes answers (`web/server/connection.py`)."""

    def __init__(
        self, front: ListenerState, fast: FastPath | None, config: uvicorn.Config, server_state: ServerState,
        app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:  # fmt: skip
        super().__init__(front, server_state, _loop or asyncio.get_running_loop())
        self.fast = fast
        self.stock: Stock | None = None  # made when it is needed first
        self.pending: PendingBody | None = None
        self.long_body: LongBody | None = None
        self.rest = b""  # received, and not processed: a part of a head, or what waits for an answer
        self._config = config
        self._app_state = app_state
        self._held = 0  # bytes of the body of a hot request that are counted in `Bodies`
        self._left = 0  # bytes to come of a body that goes to the stock protocol
        self._chunks: ChunkScanner | None = None  # or the framing of one in chunks

    # -- what the subclass does

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        raise NotImplementedError

    def eof_received(self) -> bool:
        """The client sends no more. Returns whether the connection stays open."""
        raise NotImplementedError

    def stock_answered(self) -> None:
        """The stock protocol has written its answer."""
        raise NotImplementedError

    def answer_pending(self, fast: FastPath, pending: PendingBody, body: bytes | PaddedBuffer) -> None:
        """The body of the pending request is complete."""
        raise NotImplementedError

    # -- for long bodies

    def whole(self, body: PaddedBuffer) -> None:
        """A long body is complete."""
        self.long_body = None
        if self.pending is not None and self.fast is not None:
            self.answer_pending(self.fast, self.pending, body)

    def parted(self, came: bytes) -> None:
        """A long body arrives in parts from here on, and is counted by them."""
        self.long_body = None
        if self.pending is not None:
            self._count(self.pending.size)
        if came:
            self.data_received(came)

    # -- for the stock protocol

    def stock_reads(self, on: bool) -> None:
        """Read, or stop, as the stock protocol asks; not while something waits."""
        if not on or self.in_head or not self.rest:
            self.read(on)

    # -- for the subclass

    def interrupt(self) -> bool:
        """Give up the request whose body is incomplete. Returns whether nothing of an answer to it has been written."""
        self.rest = b""
        if self.pending is not None:
            self.pending = None
            self.release()
        elif self.stock is not None and self.stock.owes:
            if self.stock.started:
                return False
            self.stock.end()
        return True

    def begin_stock(self, head: bytes, length: int, marks: dict[str, Any]) -> None:
        """Give a request to the stock protocol. Its body, of `length` bytes or CHUNKED, follows."""
        if self.stock is None:
            self.stock = Stock(self, self._config, self.server_state, self._app_state)
        self.busy, self.in_body = True, length != 0
        self._left, self._chunks = length, ChunkScanner() if length == CHUNKED else None
        if self.in_body:
            self.deadline = self.loop.time() + self.bounds.body_idle_s
        self.stock.begin(head, marks)

    def take_body(self, data: bytes) -> bytes:
        """Take bytes of the current body. Returns what follows it in `data`."""
        pending = self.pending
        if pending is None:
            return self._pass_body(data)
        chunks = pending.chunks
        size = pending.size + len(data)
        if not self._count(size) or self.loop.time() > pending.until or (chunks and size > INLINE_BYTES_MAX):
            self._give_to_stock(pending)
            return data
        before = 0 if chunks is None else chunks.body_bytes
        taken = min(pending.length - pending.size, len(data)) if chunks is None else chunks.feed(data)
        pending.parts.append(data if taken == len(data) else data[:taken])
        pending.size += taken
        if chunks.done if chunks is not None else pending.size == pending.length:
            body = b"".join(pending.parts)
            if self.fast is not None:
                self.answer_pending(self.fast, pending, body if chunks is None else unchunk(body))
        elif chunks is None or chunks.body_bytes > before:
            self.deadline = self.loop.time() + self.bounds.body_idle_s
            if chunks is None:
                self.read_long(pending)
        return data[taken:]

    def _pass_body(self, data: bytes) -> bytes:
        """Pass bytes of the current body on to the stock protocol. It drops them if it has answered already."""
        chunks, before = self._chunks, 0
        if chunks is None:
            taken = min(self._left, len(data))
            self._left -= taken
            self.in_body, progress = self._left > 0, True
        else:
            before = chunks.body_bytes
            taken = chunks.feed(data)
            self.in_body, progress = not chunks.done, chunks.body_bytes > before
        if self.stock is not None:
            self.stock.feed(data if taken == len(data) else data[:taken])
        if not self.busy:
            self.drop(taken)
        if not self.in_body:
            self.deadline = math.inf
            if not self.busy:
                self.dropped = 0
                self.idle()
        elif self.busy and progress:
            self.deadline = self.loop.time() + self.bounds.body_idle_s
        return data[taken:]

    def _give_to_stock(self, pending: PendingBody) -> None:
        """Give the pending request to the stock protocol, with the part of its body that has arrived."""
        self.pending = None
        self.release()
        self.begin_stock(pending.head, pending.length, marks_of(pending.request))
        if pending.size:
            self._pass_body(b"".join(pending.parts))

    def read_long(self, pending: PendingBody) -> None:
        """Read the rest of a body into one buffer if it is long enough. All of it is counted at once, but only while all bodies
        together take at most half of `bodies_bytes_max`: an announced length alone cannot keep other bodies out."""
        rest, fast = pending.length - pending.size, self.fast
        if fast is None or rest < WORTH_BYTES or 2 * (fast.bodies.held + rest) > fast.bodies.bytes_max:
            return
        if self._count(pending.length):
            until = min(pending.until, self.loop.time() + self.bounds.body_idle_s / 2)  # progress is not seen byte by byte
            self.long_body = LongBody(self, self.wire, b"".join(pending.parts), pending.length, until)

    def _count(self, size: int) -> bool:
        """Count `size` bytes of a body. Returns false, without counting, if all bodies together are too large."""
        more = counted_bytes(size) - self._held
        counted = self.fast is None or self.fast.bodies.take_bytes(more)
        self._held += more if counted else 0
        return counted

    def release(self) -> None:
        """Release the bytes that are counted for the body of a hot request."""
        if self._held and self.fast is not None:
            self.fast.bodies.give_bytes(self._held)
            self._held = 0

    def idle(self) -> None:
        """Begin to wait for the next request."""
        self.deadline = self.loop.time() + self.bounds.idle_s


def marks_of(request: Request) -> dict[str, Any]:
    """Return what the scope of an admitted request says about that."""
    return {ADMITTED: True} if request.key is None else {ADMITTED: True, KEY: request.key}
