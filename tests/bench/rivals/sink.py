"""uvloop that takes bodies of a said length and does nothing with them, or keeps them in a file, synced before the answer.

What is left of a server once it does nothing with what it is sent: the limit of every bulk body on this machine. Bodies that
wait for the same sync are written together, as a log does it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import uvloop

from tests.bench.bulk_rows import ROWS
from tests.bench.rivals.fixed import UvloopFixed

BODY: Final = b'{"accepted":%d,"seq":0}' % ROWS
ANSWER: Final = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
LENGTH: Final = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
HEAD_END: Final = b"\r\n\r\n"


class Kept:
    """The file, and the thread that writes to it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[list[bytes], asyncio.Transport]] = []
        self._loop = asyncio.get_running_loop()

    def put(self, parts: list[bytes], transport: asyncio.Transport) -> None:
        """Keep a body and answer."""
        self._waiting.append((parts, transport))
        self._thread.submit(self._write)

    def _write(self) -> None:
        taken, self._waiting = self._waiting, []
        if taken:
            for parts, _ in taken:
                os.writev(self._file, parts)
            os.fdatasync(self._file)
            for _, transport in taken:
                self._loop.call_soon_threadsafe(transport.write, ANSWER)


class Taking(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, kept: Kept | None) -> None:
        self._kept = kept
        self._head = b""
        self._left = 0
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer after the body is complete."""
        if not self._left:
            self._head += data
            head, end, data = self._head.partition(HEAD_END)
            length = LENGTH.search(head)
            if not end or length is None:
                return
            self._head, self._left = b"", int(length[1])
        self._left -= len(data)
        if self._kept is not None:
            self._parts.append(data)
        if self._left:
            return
        if self._kept is None:
            self.transport.write(ANSWER)
        else:
            self._kept.put(self._parts, self.transport)
            self._parts = []


async def serve(port: int, path: str) -> None:
    """Serve until the process is ended."""
    kept = Kept(path) if path else None
    server = await asyncio.get_running_loop().create_server(lambda: Taking(kept), "127.0.0.1", port)
    await server.serve_forever()


class UvloopSink(UvloopFixed):
    """Context manager: the server above as a separate process; `path` is the file, empty to discard bodies."""

    MODULE = __name__

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.arguments = (path,)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
