"""uvicorn's HTTP protocol with bounds on the head of a request: how long it may be, how long it may take.

A middleware cannot do this, it runs after the head was read. The parser itself bounds neither.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from riata.base.limits import QUERY_BYTES_MAX

HEAD_BYTES_MAX: Final = QUERY_BYTES_MAX + 32 * 2**10  # a query at its bound, and headers
HEAD_DEADLINE_S: Final = 10.0  # from the first byte to the empty line
TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose head is too long or too slow. Costs nothing where the head comes in one piece."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.in_head = False
        self.head_bytes = 0
        self.head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection that never says anything is closed like one that fell silent."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._forget()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A head begins."""
        self.in_head = True
        self.head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self.in_head = False
        self._forget()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Parse, then see whether a head has been left open."""
        super().data_received(data)
        if not self.in_head or self.transport.is_closing():
            return
        self.head_bytes += len(data)
        if self.head_bytes > HEAD_BYTES_MAX:
            self._end(TOO_LONG)
        elif self.head_timer is None:
            self.head_timer = self.loop.call_later(HEAD_DEADLINE_S, self._end, TOO_SLOW)

    def _end(self, answer: bytes) -> None:
        self._forget()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _forget(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None
