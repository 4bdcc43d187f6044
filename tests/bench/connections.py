"""Keep-alive connections driven by one thread: a load that costs little, without waking other threads.

The caller keeps a selector. Its events name the links, and each link gets its events.
"""

from __future__ import annotations

import re
import selectors
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

CONNECT_S: Final = 30.0
_READ_BYTES: Final = 65536
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server to one request."""

    status: int
    body: bytes


class Link:
    """One connection with one request under way at a time."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self._link = socket.create_connection(("127.0.0.1", port), CONNECT_S)
        self._link.setblocking(False)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector = selector
        self._unsent = memoryview(b"")
        self._heard = bytearray()
        selector.register(self._link, selectors.EVENT_READ, self)

    def ask(self, head: bytes, body: bytes) -> None:
        """Begin to send a request. The body is not copied."""
        self._heard.clear()
        sent = self._link.sendmsg([head, body])  # an idle connection has room for the head at least
        self._unsent = memoryview(body)[sent - len(head) :]
        self._push()

    def turn(self, events: int) -> Answer | None:
        """Do what the selector says can be done: send on, and take what came; the answer once it is whole.

        Raises `RuntimeError` if the connection is closed, or the answer does not say how long it is.
        """
        if events & selectors.EVENT_WRITE:
            self._push()
        return self._hear() if events & selectors.EVENT_READ else None

    def close(self) -> None:
        self._selector.unregister(self._link)
        self._link.close()

    def _push(self) -> None:
        while self._unsent:
            try:
                self._unsent = self._unsent[self._link.send(self._unsent) :]
            except BlockingIOError:
                self._selector.modify(self._link, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
                return
        self._selector.modify(self._link, selectors.EVENT_READ, self)

    def _hear(self) -> Answer | None:
        piece = self._link.recv(_READ_BYTES)
        if not piece:
            raise RuntimeError(f"the service closed a connection: {bytes(self._heard[:400])!r}")
        self._heard += piece
        end = self._heard.find(b"\r\n\r\n")
        if end < 0:
            return None
        length = _LENGTH.search(self._heard, 0, end + 2)
        if length is None:
            raise RuntimeError(f"an answer without a length: {bytes(self._heard[:400])!r}")
        if len(self._heard) < end + 4 + int(length[1]):
            return None
        return Answer(int(self._heard[9:12]), bytes(self._heard[end + 4 :]))


def closed_loop(port: int, connections: int, requests: Sequence[tuple[bytes, bytes]]) -> list[Answer]:
    """Send request k, its head and its body, over connection k modulo `connections`, each after the previous one is answered.
    Returns the answers in the order of the requests.
    """
    answers: dict[int, Answer] = {}
    with links(port, connections) as (selector, made):
        under_way = {link: k for k, link in enumerate(made) if k < len(requests)}
        for link, k in under_way.items():
            link.ask(*requests[k])
        while len(answers) < len(requests):
            for key, events in selector.select():
                link, answer = key.data, key.data.turn(events)
                if answer is not None:
                    answers[under_way[link]] = answer
                    under_way[link] += connections
                    if under_way[link] < len(requests):
                        link.ask(*requests[under_way[link]])
    return [answers[k] for k in range(len(requests))]


def post_head(port: int, path: str, kind: str, length: int, more: str = "") -> bytes:
    """The head of a POST of `length` bytes; `more` are whole lines of it."""
    lines = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\n{more}Content-Length: {length}\r\n\r\n"
    return lines.encode()


@contextmanager
def links(port: int, connections: int) -> Iterator[tuple[selectors.BaseSelector, list[Link]]]:
    """This many connections and their selector, for the duration of the block."""
    with selectors.DefaultSelector() as selector:
        made = [Link(port, selector) for _ in range(connections)]
        try:
            yield selector, made
        finally:
            for link in made:
                link.close()
