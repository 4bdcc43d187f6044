"""Framing of request bodies: where a body ends, and its parts without framing. They are parsed elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from typing import Any, Final, Protocol, cast

from riata.web.server import bounds
from riata.web.server.bounds import Refused
from riata.web.server.request import CHUNKED
from riata.wire.workspace import PaddedBuffer

FRAMING_BYTES_MAX: Final = 64 * 2**10  # bytes of chunk heads and extensions allowed without any body
FRAMING_RATIO_MAX: Final = 8  # and as many for every byte of body: a chunk of one byte takes five
LINE_BYTES_MAX: Final = 4096  # of a chunk's size and extensions
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb'([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*' % (_TOKEN, _TOKEN))
_SIZE_BEGUN: Final = re.compile(rb"[0-9A-Fa-f]{0,16}(|;[\t\x20-\x7e]*)\r?")  # of a line whose end has not arrived
_LINE_END: Final = b"\r\n"


class Body:
    """A body of `length` bytes, as it arrives.

    size: bytes that have arrived, without framing
    held: those of them that were not taken
    done: whether all have arrived
    """

    __slots__ = ("_parts", "done", "held", "length", "size")

    def __init__(self, length: int) -> None:
        self.length = length
        self.size = self.held = 0
        self.done = length == 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> int:
        """Take the next bytes; returns how many of them belong to the body. After its end `done` is true."""
        taken = min(self.length - self.size, len(data))
        self._add(data if taken == len(data) else data[:taken])
        self.done = self.size == self.length
        return taken

    def take(self) -> bytes:
        """Return what has arrived since the last call."""
        taken = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.held = 0
        return taken

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)
        self.held += len(part)


class ChunkedBody(Body):
    """A body in chunks. Raises `Refused` for malformed chunks, trailers, and more framing than body.

    `framing_bytes` counts the framing.
    """

    __slots__ = ("_last", "_left", "_line", "framing_bytes")

    def __init__(self) -> None:
        super().__init__(CHUNKED)
        self.framing_bytes = 0
        self._left = 0  # bytes to come of the data of a chunk, with the line end after them
        self._line = b""  # the part that has arrived of the line of the next chunk's size, or of the last empty line
        self._last = False  # the chunk of size 0 has arrived

    def feed(self, data: bytes) -> int:
        """Take the next bytes; returns how many of them belong to the body. After its end `done` is true."""
        at = 0
        while at < len(data) and not self.done:
            at = self._in_data(data, at) if self._left else self._in_line(data, at)
            if self.framing_bytes > FRAMING_BYTES_MAX + FRAMING_RATIO_MAX * self.size:
                raise Refused(bounds.BAD_CHUNKS)
        return at

    def _in_data(self, data: bytes, at: int) -> int:
        there = min(self._left, len(data) - at)
        body = min(max(self._left - len(_LINE_END), 0), there)
        if body:
            self._add(data[at : at + body])
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


def body_of(length: int) -> Body:
    """Return a body of which nothing has arrived. length : of `Request`"""
    return ChunkedBody() if length == CHUNKED else Body(length)


# Zero-copy reading of long request bodies: straight into the buffer that they are parsed from.
#
# Otherwise each part of a body is copied twice under the interpreter's lock: out of the event loop's buffer, and into one buffer
# with the other parts. The loop also runs a callback for every part, and parts are small if the client sends while the loop
# reads. Here the transport gets another protocol until the announced number of bytes has arrived. It reads into one buffer, and
# asks the system to wake the loop only when all or much of it has arrived (SO_RCVLOWAT).
#
# Only the plain case is handled here. In all others (a slow client, EOF, the shutdown of the server) the bytes go to the
# connection as if they had just arrived.


WORTH_BYTES: Final = 64 * 2**10  # if less of a body is still to come, the connection takes it in parts
AT_ONCE_BYTES: Final = 256 * 2**10  # the loop wakes when this much has arrived; the system's socket buffer has to hold it
_NO_BODY: Final = PaddedBuffer(0)
_NO_MEMORY: Final = memoryview(b"")


class Reader(Protocol):
    """The connection whose body is read."""

    loop: asyncio.AbstractEventLoop

    @property
    def is_closing(self) -> bool:
        """Whether received bytes are dropped."""

    def whole(self, body: PaddedBuffer) -> None:
        """Take the complete body."""

    def parted(self, came: bytes) -> None:
        """Take what of the body has arrived; the rest comes as any other bytes."""

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
        self._there = len(first)
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
        if self._reader.is_closing:
            self.give_back()
        elif self._there == len(self._memory):
            self._reader.whole(self._end())
        elif self._reader.loop.time() > self.until:
            self.give_back()
        else:
            self._wake_for_much()

    def eof_received(self) -> bool:
        """The client sends no more: let the connection see what has arrived."""
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
        """Hand what has arrived back to the connection."""
        came = self._memory[: self._there].tobytes()
        self._end()
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
