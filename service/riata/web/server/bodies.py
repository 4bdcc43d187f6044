"""Bodies of a connection: collected for a hot request, or passed on to the stock protocol as they come."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import socket
from typing import Any, Final, Protocol, cast

import uvicorn
from uvicorn.server import ServerState

from riata.web.auth.gate import ADMITTED
from riata.web.auth.keys import KEY
from riata.web.server import bounds
from riata.web.server.body import counted_bytes
from riata.web.server.bounded import BoundedConnection
from riata.web.server.bounds import ListenerState, Refused
from riata.web.server.fast_path import FastPath
from riata.web.server.heads import CHUNKED
from riata.web.server.request import Request
from riata.web.server.stock import Stock
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.workspace import PaddedBuffer

WORTH_BYTES: Final = 64 * 2**10  # if less of a body is still to come, the parser reads it
AT_ONCE_BYTES: Final = 256 * 2**10  # the loop wakes when this much has arrived; the system's socket buffer has to hold it
_NO_BODY: Final = PaddedBuffer(0)

_NO_MEMORY: Final = memoryview(b"")

FRAMING_BYTES_MAX: Final = 64 * 2**10  # bytes of chunk heads and extensions allowed without any body

FRAMING_RATIO_MAX: Final = 8  # and as many for every byte of body: a chunk of one byte takes five
LINE_BYTES_MAX: Final = 4096  # of a chunk's size and extensions
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb'([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*' % (_TOKEN, _TOKEN))
_SIZE_BEGUN: Final = re.compile(rb"[0-9A-Fa-f]{0,16}(|;[\t\x20-\x7e]*)\r?")  # of a line whose end has not arrived
_LINE_END: Final = b"\r\n"

BODY_WAIT_S: Final = 1.0  # to wait for a body after its head; a slower one goes to the ASGI route, which has a deadline


# Zero-copy reading of long request bodies: straight into the buffer that they are parsed from.
#
# Through the HTTP parser each part of a body is copied three times under the interpreter's lock: out of the event loop's buffer,
# out of the received bytes, and into one buffer with the other parts. The loop also runs a callback for every part, and parts are
# small if the client sends while the loop reads. Here the transport gets another protocol until the announced number of bytes has
# arrived. It reads into one buffer, and asks the system to wake the loop only when all or much of it has arrived (SO_RCVLOWAT).
#
# Only the plain case is handled here. In all others (a slow client, EOF, the shutdown of the server) the bytes go to the HTTP
# parser as if they had just arrived.


class Reader(Protocol):
    """The connection whose body is read."""

    loop: asyncio.AbstractEventLoop
    discarding: bool  # received bytes are dropped, not parsed

    def whole(self, body: PaddedBuffer) -> None:
        """Take the complete body."""

    def parted(self, came: bytes) -> None:
        """Take the bytes read so far, and have the rest of the body parsed."""

    def eof_received(self) -> bool: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class LongBody(asyncio.BufferedProtocol):
    """The protocol of a transport from within a body to its end. `first` is the part that has arrived, of `length` bytes."""

    def __init__(self, reader: Reader, transport: asyncio.Transport, first: bytes, length: int, until: float) -> None:
        self._reader = reader
        self._transport = transport
        self._body = PaddedBuffer(length)
        self._memory = memoryview(cast(Any, self._body.bytes))
        self._memory[: len(first)] = first
        self._parsed = self._there = len(first)
        self.until = until
        self._lowest = 1
        transport.set_protocol(self)
        self._wake_for_much()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the size of the rest is known
        """Return the unfilled rest of the buffer."""
        return self._memory[self._there :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count bytes that have arrived; hand the body over once it is complete."""
        self._there += nbytes
        if self._reader.discarding:
            self.give_back()
        elif self._there == len(self._memory):
            self._reader.whole(self._end())
        elif self._reader.loop.time() > self.until:
            self.give_back()
        else:
            self._wake_for_much()

    def eof_received(self) -> bool:
        """The client sends no more: let the parser see what has arrived."""
        self.give_back()
        return self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the loss of the connection on."""
        self._reader.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._reader.resume_writing()

    def give_back(self) -> None:
        """Hand what has arrived back to the parser."""
        came = self._memory[self._parsed : self._there].tobytes()
        self._end()  # frees the memory before the parser copies what came
        self._reader.parted(came)

    def _end(self) -> PaddedBuffer:
        """Restore the protocol of the transport and return the body.

        The reference to the body is dropped here: uvloop keeps the methods of the last buffered protocol, and with them this
        object, until the connection is closed.
        """
        self._wake_at(1)
        self._transport.set_protocol(cast(asyncio.BaseProtocol, self._reader))
        body, self._body = self._body, _NO_BODY
        self._memory = _NO_MEMORY
        return body

    def _wake_for_much(self) -> None:
        self._wake_at(min(len(self._memory) - self._there, AT_ONCE_BYTES))

    def _wake_at(self, size: int) -> None:
        """Set the number of bytes for which the loop wakes; a system without SO_RCVLOWAT wakes it more often."""
        if size != self._lowest:
            self._lowest = size
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)


# Framing of bodies in chunks: where a body ends, without reading it.


class ChunkScanner:
    """Finds the end of one body in chunks. Raises `Refused` for malformed chunks, trailers, and more framing than body.

    `body_bytes` counts the body without its framing; `framing_bytes` counts the framing.
    """

    __slots__ = ("_last", "_left", "_line", "body_bytes", "done", "framing_bytes")

    def __init__(self) -> None:
        self.body_bytes = self.framing_bytes = 0
        self.done = False
        self._left = 0  # bytes to come of the data of a chunk, with the line end after them
        self._line = b""  # the part that has arrived of the line of the next chunk's size, or of the last empty line
        self._last = False  # the chunk of size 0 has arrived

    def feed(self, data: bytes) -> int:
        """Scan the next bytes; returns how many of them belong to the body. After its end `done` is true."""
        at = 0
        while at < len(data) and not self.done:
            at = self._in_data(data, at) if self._left else self._in_line(data, at)
            if self.framing_bytes > FRAMING_BYTES_MAX + FRAMING_RATIO_MAX * self.body_bytes:
                raise Refused(bounds.BAD_CHUNKS)
        return at

    def _in_data(self, data: bytes, at: int) -> int:
        there = min(self._left, len(data) - at)
        body = min(max(self._left - len(_LINE_END), 0), there)
        self.body_bytes += body
        self.framing_bytes += there - body
        end = data[at + body : at + there]
        if end != _LINE_END[len(_LINE_END) - self._left + body :][: len(end)]:
            raise Refused(bounds.MALFORMED)
        self._left -= there
        return at + there

    def _in_line(self, data: bytes, at: int) -> int:
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop + 1
        self.framing_bytes += stop - at
        self._line += data[at:stop]
        line = self._line
        if line[-1:] == b"\n":
            if line[-2:] != _LINE_END:
                raise Refused(bounds.MALFORMED)
            self._line = b""
            self._whole(line[:-2])
        elif not self._last and _SIZE_BEGUN.fullmatch(line) is None:
            raise Refused(bounds.MALFORMED)
        elif (self._last and line != b"\r") or len(line) > LINE_BYTES_MAX:
            raise Refused(bounds.BAD_CHUNKS)
        return stop

    def _whole(self, line: bytes) -> None:
        if self._last:
            if line:
                raise Refused(bounds.BAD_CHUNKS)
            self.done = True
            return
        size = _SIZE.fullmatch(line)
        if size is None:
            raise Refused(bounds.MALFORMED)
        length = int(size[1], 16)
        self._last = length == 0
        self._left = length + len(_LINE_END) if length else 0


def unchunk(body: bytes) -> bytes:
    """Return the content of a whole body in chunks that a `ChunkScanner` has taken to its end."""
    parts: list[bytes] = []
    at = 0
    while True:
        line = body.index(_LINE_END, at)
        size = int(body[at:line].partition(b";")[0], 16)
        if size == 0:
            return b"".join(parts) if len(parts) != 1 else parts[0]
        start = line + len(_LINE_END)
        parts.append(body[start : start + size])
        at = start + size + len(_LINE_END)


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
