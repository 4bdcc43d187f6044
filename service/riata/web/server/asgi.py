"""One request as an ASGI application sees it: its scope, the messages that it receives, and the bytes of what it sends."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, Final, Protocol
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from riata.web.server.answers import CLOSE_HEADER, IS_STOPPING, status_line
from riata.web.server.framing import Body
from riata.web.server.request import Request, headers_of

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY: Final = frozenset({204, 304})
_LINE_BREAK: Final = re.compile(rb"[\r\n\0]")  # in a header it could begin another one
_FAULT: Final = b"Internal Server Error"

log = logging.getLogger("riata.web")


class Owner(Protocol):
    """The connection of the request."""

    wire: asyncio.Transport
    stopping: bool
    write_paused: bool

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that every answer has."""

    def leave(self) -> None:
        """Close the connection once everything written was sent."""

    def read_more(self) -> None:
        """Read from the socket: the application has taken what has arrived of the body."""

    def answered(self, closing: bool) -> None:
        """The whole answer was written. closing: it is the last one of the connection"""


class AsgiCall:
    """A request that an ASGI application answers.

    body    : what has arrived and was not received
    started : whether a part of the answer was written
    complete: whether all of it was
    """

    def __init__(self, owner: Owner, request: Request, body: Body) -> None:
        self.body = body
        self.started = self.complete = False
        self._owner = owner
        self._request = request
        self._ended = False
        self._news = asyncio.Event()  # more of the body has arrived, or there is nothing more to wait for
        self._writable = asyncio.Event()
        self._awaits_continue = request.values.get(b"expect", b"").lower() == b"100-continue"
        self._is_last = not request.keep_alive
        self._left: int | None = 0  # bytes of the answer's body to come; None if it is sent in chunks
        if body.held or body.done:
            self._news.set()
        if not owner.write_paused:
            self._writable.set()

    async def run(self, app: ASGIApp, more: dict[str, Any]) -> None:
        """Have the application answer. `more` is added to the scope."""
        failure: BaseException | None = None
        try:
            await app({**self._scope(), **more}, self._receive, self._send)
        except BaseException as error:
            failure = error
        if failure is None and (self.complete or self._ended):
            return
        log.error("%s failed before its answer was complete", self._request.method, exc_info=failure)
        if self.started:
            self._owner.leave()
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_FAULT)), CLOSE_HEADER]
            await self._send({"type": "http.response.start", "status": 500, "headers": headers})
            await self._send({"type": "http.response.body", "body": _FAULT})

    # -- called by the connection

    def came(self) -> None:
        """More of the body has arrived."""
        self._news.set()

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than it is written."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has read enough of its answer."""
        self._writable.set()

    def end(self) -> None:
        """Read and write nothing more: the client is gone, or the connection has refused its request."""
        self._ended = True
        self._news.set()
        self._writable.set()

    # -- called by the application

    def _scope(self) -> Scope:
        request = self._request
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": request.version,
            "method": request.method,
            "scheme": "http",
            "path": unquote(request.path.decode("ascii")),
            "raw_path": request.path,
            "query_string": request.query,
            "root_path": "",
            "headers": headers_of(request.lines),
            IS_STOPPING: lambda: self._owner.stopping,
        }

    async def _receive(self) -> Message:
        if self._awaits_continue:
            self._awaits_continue = False
            self._owner.wire.write(_CONTINUE)
        if not self._ended and not self.complete:
            self._owner.read_more()
            await self._news.wait()
            self._news.clear()
        if self._ended or self.complete:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.body.take(), "more_body": not self.body.done}

    async def _send(self, message: Message) -> None:
        await self._writable.wait()
        if self._ended:
            return
        expected = "http.response.body" if self.started else "http.response.start"
        if message["type"] != expected or self.complete:
            raise RuntimeError(f"the application sent {message['type']}, not {expected}")
        if self.started:
            self._write_body(message.get("body", b""), message.get("more_body", False))
        else:
            self._write_head(message["status"], message.get("headers", ()))

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started, self._awaits_continue = True, False
        lines, given = [status_line(status)], dict(headers)
        for name, value in (*self._owner.default_headers, *headers):
            if _LINE_BREAK.search(name) or _LINE_BREAK.search(value):
                raise RuntimeError("a header of the answer has a line break")
            lines.append(b"%b: %b\r\n" % (name, value))
        if CLOSE_HEADER in headers:
            self._is_last = True
        elif self._is_last or self._owner.stopping:
            lines.append(b"%b: %b\r\n" % CLOSE_HEADER)
        if b"content-length" in given:
            self._left = int(given[b"content-length"])
        elif self._request.method != "HEAD" and status not in _NO_BODY:
            self._left = None
            lines.append(b"transfer-encoding: chunked\r\n")
        self._owner.wire.write(b"".join([*lines, b"\r\n"]))

    def _write_body(self, part: bytes, more: bool) -> None:
        wire = self._owner.wire
        if self._request.method == "HEAD":
            pass
        elif self._left is None:
            chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
            wire.write(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self._left -= len(part)
            if self._left < 0 or (self._left > 0 and not more):
                raise RuntimeError("the body of the answer is not as long as its head says")
            wire.write(part)
        if not more:
            self.complete = True
            self._news.set()
            self._owner.answered(self._is_last or self._owner.stopping)
