"""Zero-copy reading of long request bodies: straight into the buffer that they are parsed from.

Otherwise each part of a body is copied twice under the interpreter's lock: out of the event loop's buffer, and into one buffer
with the other parts. The loop also runs a callback for every part, and parts are small if the client sends while the loop reads.
Here the transport gets another protocol until the announced number of bytes has arrived. It reads into one buffer, and asks the
system to wake the loop only when all or much of it has arrived (SO_RCVLOWAT).

Only the plain case is handled here. In all others (a slow client, EOF, the shutdown of the server) the bytes go to the connection
as if they had just arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final, Protocol, cast

from riata.wire.workspace import PaddedBuffer

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
