"""Batched reading of keep-alive connections that repeat the same request head, with a separate epoll.

Theory of operation
    A connection that has sent the same head twice will likely send it again with another row. Its transport is then paused, and
    its socket is registered in a separate `epoll`, which the event loop watches instead. When sockets are readable, one compiled
    call receives from all of them and compares the heads. A second compiled call predicts the rows to predict
    (`predict/heard.py`). Rows to learn are handed on. What is the same for all requests of a batch is looked up once: the time
    and the served model. Everything else is checked for each request: the key in force, its expiry, its rate limit.

    A connection leaves if it sends anything else, or sends more before it is answered. Its transport is resumed, and the bytes
    received go to the protocol as if the event loop had read them. A connection that sends EOF or is lost leaves in the same way.
    This module makes no decision about a request: it only routes bytes.

An `Audience` belongs to the event loop's thread, and serves one loop.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections.abc import Callable
from typing import Final, Protocol

from riata.maths.sockets import CAN_HEAR
from riata.predict.heard import LOOKS, Ear
from riata.predict.one_row import OneRow
from riata.web.again import Again

log = logging.getLogger("riata.web")
NOBODY: Final = -1  # no socket: used instead of a file descriptor


class Listener(Protocol):
    """A connection as the `Audience` uses it. `known` stays the same until the connection leaves."""

    loop: asyncio.AbstractEventLoop
    wire: asyncio.Transport
    socket: int
    known: Again | None

    def answer(self, asked: bytes, started: float) -> bool:
        """Answer a request with the document `asked`, or have the row `asked` answered later. Returns false, and does nothing,
        if the request has to go through the parser."""
        ...

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        ...


class Audience:
    """Connections that are expected to repeat a known head. `answered` is called after each batch that was answered at once."""

    def __init__(self, answered: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        self._answered = answered
        self._listeners: dict[int, Listener] = {}  # by the file descriptor of the socket
        self._epoll: select.epoll | None = None  # None while there is no connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._number = self._alone = NOBODY  # file descriptors: of the epoll, and of the only socket read in the last turn
        self._ear: Ear | None = None

    def enter(self, listener: Listener) -> None:
        """Read the next requests of a connection with a known head here; the event loop does not read from it meanwhile."""
        known = listener.known
        if not CAN_HEAR or known is None or self.expects(listener):
            return
        if self._ear is None:
            self._ear = Ear(OneRow())
        if self._epoll is None:
            self._epoll, self._loop = select.epoll(), listener.loop
            self._number = self._epoll.fileno()
            self._loop.add_reader(self._number, self.hear)
        self._ear.seat(listener.socket, known.head, id(known.quick))
        listener.wire.pause_reading()
        self._listeners[listener.socket] = listener
        self._epoll.register(listener.socket, select.EPOLLIN)

    def leave(self, listener: Listener) -> None:
        """Return a connection to the event loop, if it is read here."""
        if self._epoll is None or self._loop is None or self._listeners.pop(listener.socket, None) is None:
            return
        self._epoll.unregister(listener.socket)
        self._alone = NOBODY
        if not listener.wire.is_closing():
            listener.wire.resume_reading()
        if not self._listeners:
            self._loop.remove_reader(self._number)
            self._epoll.close()
            self._epoll = self._loop = None

    def expects(self, listener: Listener) -> bool:
        """Return whether a connection is read here."""
        return listener.socket in self._listeners

    def hear(self) -> None:
        """Process the requests that have arrived, a bounded number of them."""
        self._hear(1, NOBODY)

    def listen(self) -> None:
        """Like `hear`, but poll LOOKS times if nothing has arrived; begin with the only socket read in the last turn, if any."""
        self._hear(LOOKS, self._alone)

    def _hear(self, looks: int, alone: int) -> None:
        if self._epoll is None or self._loop is None or self._ear is None:
            return
        ear, started = self._ear, time.perf_counter()  # taken before reading: a request may arrive some µs later
        count, at = ear.hear(self._number, looks, alone), 0
        if count > 0:
            self._alone = ear.socket(0) if count == 1 else NOBODY
            while at < count:
                at = self._answer(ear, at, count, started)

    def _answer(self, ear: Ear, at: int, count: int, started: float) -> int:
        """Answer the rows from `at` on that share one `Quick`; returns where those of another begin."""
        listeners = self._listeners
        quick = listeners[ear.socket(at)].known.quick  # type: ignore[union-attr]  # set since `enter`
        at, found = quick.heard(ear, at, count)
        for socket, begin, size, asked in found:
            listener = listeners[socket]
            try:
                if asked is None or not listener.answer(asked, started):
                    self.leave(listener)
                    if size > 0:
                        listener.data_received(ear.said(begin, size))
            except Exception:
                log.exception("a connection failed; those that were heard with it go on")
                listener.wire.abort()
        if quick.take is None and self._loop is not None:
            self._answered(self._loop)
        return at
