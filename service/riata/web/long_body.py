"""A long body is read straight into the memory that it is parsed from.

In the parser's way each part of a body is copied three times under the interpreter's lock: out of the event loop's memory, out of
what was received, and into one piece with the other parts; and the loop is called for every part, which are small where a client
sends while the loop reads. Here the transport is given another protocol until the announced number of bytes is there: it reads
into one piece of memory, and the system is asked to wake the loop only when all of it, or much of it, has come (SO_RCVLOWAT).

Nothing is decided here. Whatever is not the plain way, a client that takes its time or ends, no room, the stop of the server, has
the bytes given to the parser as if they had come just now.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final, Protocol, cast

from riata.wire.padded_buffer import PaddedBuffer

WORTH_BYTES: Final = 64 * 2**10  # what is still to come of a shorter body is as well parsed
AT_ONCE_BYTES: Final = 256 * 2**10  # the loop is woken when so much has come; the system's memory has to hold it
_NO_BODY: Final = PaddedBuffer(0)
_NO_MEMORY: Final = memoryview(b"")


class Reader(Protocol):
    """Whoever has a body read."""

    loop: asyncio.AbstractEventLoop
    deaf: bool  # nothing that comes is read any more

    def whole(self, body: PaddedBuffer) -> None:
        """Take the whole body."""

    def parted(self, came: bytes) -> None:
        """Have the body parsed from here on: so much of it has been read."""

    def eof_received(self) -> bool: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class LongBody(asyncio.BufferedProtocol):
    """The protocol of a transport from a point within one body to its end. `first` is what came of it, of `length` bytes."""

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

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the rest is announced
        """Where the next bytes belong."""
        return self._memory[self._there :]

    def buffer_updated(self, nbytes: int) -> None:
        """Some more has come."""
        self._there += nbytes
        if self._reader.deaf:
            self.give_back()
        elif self._there == len(self._memory):
            self._reader.whole(self._end())
        elif self._reader.loop.time() > self.until:
            self.give_back()
        else:
            self._wake_for_much()

    def eof_received(self) -> bool:
        """The client sends no more."""
        self.give_back()
        return self._reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._reader.connection_lost(exc)

    def pause_writing(self) -> None:
        """Somebody does not take an answer."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """He has."""
        self._reader.resume_writing()

    def give_back(self) -> None:
        """Have the parser go on with what has come."""
        came = self._memory[self._parsed : self._there].tobytes()
        self._end()  # frees the memory before the parser copies what came
        self._reader.parted(came)

    def _end(self) -> PaddedBuffer:
        """Give the transport its protocol back and return the body.

        The body is kept here no longer: uvloop keeps the methods of the last buffered protocol, and with them this object, until
        the connection is gone.
        """
        self._wake_at(1)
        self._transport.set_protocol(cast(asyncio.BaseProtocol, self._reader))
        body, self._body = self._body, _NO_BODY
        self._memory = _NO_MEMORY
        return body

    def _wake_for_much(self) -> None:
        self._wake_at(min(len(self._memory) - self._there, AT_ONCE_BYTES))

    def _wake_at(self, size: int) -> None:
        """Ask not to be woken for less; where the system knows no such thing, it wakes us more often."""
        if size != self._lowest:
            self._lowest = size
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
