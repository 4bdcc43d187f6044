"""Those who ask the same again and again, heard together.

Theory of operation
    A connection that has said the same head twice will likely say it again with another row. Its socket is taken from the event
    loop then (its transport is paused) and put into an `epoll` of our own, which the loop watches in its place. Whenever there is
    something, all that has come is taken and compared in one compiled call, rows to predict are answered in another
    (`predict/heard.py`), rows to learn handed on, and what is the same for all of them is asked for once: the time, and which
    model is served. Everything else is asked for each request: the key in force, its expiry, its rate.

    Who says anything else, or says something before he is answered, leaves: the loop reads his socket again, and what he said
    goes to the protocol as if it had been read by the loop. So does who says nothing more, or is lost. Nothing is decided here.

An `Audience` belongs to the event loop's thread, and has one loop.
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
NOBODY: Final = -1  # instead of the number of a socket


class Listener(Protocol):
    """A connection as it is heard here. What is in `known` stays the same until it leaves."""

    loop: asyncio.AbstractEventLoop
    wire: asyncio.Transport
    socket: int
    known: Again | None

    def answer(self, asked: bytes, started: float) -> bool:
        """Answer a request that was heard, with a document, or have its row answered later; false where it has to be read, and
        nothing was done."""
        ...

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        ...


class Audience:
    """Connections whose requests are expected. `answered` is told whenever some were answered at once."""

    def __init__(self, answered: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        self._answered = answered
        self._listeners: dict[int, Listener] = {}  # by their sockets
        self._epoll: select.epoll | None = None  # while there is anybody
        self._loop: asyncio.AbstractEventLoop | None = None
        self._number = self._alone = NOBODY  # of the epoll, and of the socket that was the only one heard in the last turn
        self._ear: Ear | None = None

    def enter(self, listener: Listener) -> None:
        """Hear the next requests of a connection whose head is known; nobody else reads from it meanwhile."""
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
        """Have the loop read from a connection again, if it was heard here."""
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
        """Whether a connection is heard here."""
        return listener.socket in self._listeners

    def hear(self) -> None:
        """Answer what has come, a number of requests at most."""
        self._hear(1, NOBODY)

    def listen(self) -> None:
        """The same, but look for it some times where there is nothing; first of all at the socket of who was alone last."""
        self._hear(LOOKS, self._alone)

    def _hear(self, looks: int, alone: int) -> None:
        if self._epoll is None or self._loop is None or self._ear is None:
            return
        ear, started = self._ear, time.perf_counter()  # a request may have come some microseconds later
        count, at = ear.hear(self._number, looks, alone), 0
        if count > 0:
            self._alone = ear.socket(0) if count == 1 else NOBODY
            while at < count:
                at = self._answer(ear, at, count, started)

    def _answer(self, ear: Ear, at: int, count: int, started: float) -> int:
        """Answer the rows from `at` on that are of one kind; returns where those of another begin."""
        listeners = self._listeners
        quick = listeners[ear.socket(at)].known.quick  # type: ignore[union-attr]  # who has come in knows it
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
