"""An HTTP answer as plain bytes, and the function that sends it through ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Send

JSON: Final = b"application/json"
NDJSON: Final = b"application/x-ndjson"
ARROW: Final = b"application/vnd.apache.arrow.stream"
CLOSE_HEADER: Final = (b"connection", b"close")
IS_STOPPING: Final = "riata.is_stopping"  # in the scope: whether the server shuts down, so that an answer without an end ends
STANDING_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))  # in every answer


class Answer(NamedTuple):
    """Status, body and headers; Content-Length is added when it is sent. rows: how many it answers, for traces."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    rows: int | None = None


class Stream(NamedTuple):
    """An answer of status 200 whose end is not known: its parts, sent as they come."""

    parts: AsyncIterator[bytes]
    content_type: bytes


@cache
def status_line(status: int) -> bytes:
    """Return the first line of an answer."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


def json_answer(document: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    """Return a document as JSON. Floats are written as the shortest text that parses to the same number; NaN is never written."""
    return Answer(status, msgspec.json.encode(document), JSON, headers)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send the head and the body."""
    headers = [(b"content-type", answer.content_type), (b"content-length", str(len(answer.body)).encode()), *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
