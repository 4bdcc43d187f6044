"""Sends bytes through a socket and splits the received bytes into answers."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

PATIENCE_S = 300.0
ROW = b'{"features":{"a":1},"label":1}'


@dataclass(frozen=True)
class Reply:
    """One answer: status, the code of its problem document (empty if it is none), headers in lower case, body."""

    status: int
    code: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Received:
    """Everything that was received, and whether the other side closed the connection."""

    replies: list[Reply]
    closed: bool

    @property
    def told(self) -> list[tuple[int, str]]:
        """Status and code of each answer."""
        return [(reply.status, reply.code) for reply in self.replies]


def read_replies(answered: bytes) -> list[Reply]:
    """Split bytes into answers. Raises an error if they are not answers."""
    replies = []
    while answered:
        head, _, rest = answered.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        assert first.startswith(b"HTTP/1.1 "), first
        headers = {name.decode().lower(): value.strip().decode() for name, _, value in (line.partition(b":") for line in lines)}
        status = int(first[9:12])
        if status == 100:
            answered = rest
            continue
        chunked = headers.get("transfer-encoding") == "chunked"
        length = rest.index(b"0\r\n\r\n") + 5 if chunked else int(headers["content-length"])
        body, answered = rest[:length], rest[length:]
        assert len(body) == length, "the answer is cut short"
        problem = headers.get("content-type") == "application/problem+json"
        replies.append(Reply(status, json.loads(body)["code"] if problem else "", headers, body))
    return replies


def listen_to(connection: socket.socket, silence_s: float = 3.0, awaited: int = 1) -> Received:
    """Read until the other side closes the connection, or sends nothing for `silence_s` after the first `awaited` answers. The
    time until these have arrived is not limited, because it depends on the machine.
    """
    answered, closed = b"", False
    try:
        connection.settimeout(max(silence_s, PATIENCE_S) if awaited else silence_s)
        while part := connection.recv(1 << 20):
            answered += part
            if awaited and whole_replies(answered) >= awaited:
                connection.settimeout(silence_s)
        closed = True
    except TimeoutError:
        pass
    except ConnectionResetError:
        closed = True
    return Received(read_replies(answered), closed)


def whole_replies(answered: bytes) -> int:
    """The number of complete answers."""
    try:
        return len(read_replies(answered))
    except (AssertionError, KeyError, ValueError):  # the last of them is on its way
        return 0


def talk(port: int, *parts: bytes, silence_s: float = 3.0, half_close: bool = False, awaited: int = 1) -> Received:
    """Send bytes, each part separately, and read the answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return listen_to(connection, silence_s, awaited)


def post(body: bytes, *headers: bytes, path: bytes = b"/observe", length: int | None = None) -> bytes:
    """A POST of JSON; `length` announces another length than that of the body."""
    head = [b"POST %s HTTP/1.1" % path, b"Host: localhost", b"Content-Type: application/json", *headers]
    head.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def get(path: bytes, *headers: bytes) -> bytes:
    """A GET."""
    return b"\r\n".join([b"GET %s HTTP/1.1" % path, b"Host: localhost", *headers]) + b"\r\n\r\n"
