"""Request head cache of a keep-alive connection: a repeated head is compared byte for byte instead of parsed and checked again.

Theory of operation
    A client usually sends the same head with every request of a keep-alive connection, except for the query of a GET and the
    Content-Length of a POST. The result of the parser, and of the checks after it, depends on the bytes of the head alone. So a
    connection remembers the bytes before and after the query, or before and after the length (`learn`). It does so for a request
    that arrived alone, was admitted, and was answered at once or accepted to be answered later.

    A connection that sends the same head twice is expected to send it again. It is then read together with similar connections
    (`web/audience.py`). If only the query differs, or only the digits of the length and the body that they count, it is the same
    request with another row. The query must be of plain characters, which the handler checks: no space, so that it cannot contain
    the end of a head, and no `#`, so that it is a query to its end.

    What may change without the head is checked for every request: the keys in force, expiry, rate limit, served model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from riata.predict.heard import Asked, Ear, Head
from riata.web.answers import Answer
from riata.web.settings import INLINE_BYTES_MAX

FastRequest = Any  # of `web/fast_lane.py`, which imports this module

HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length: "
_VERSION: Final = b" HTTP/1.1\r\n"

Reply = Callable[[Answer], None]
Take = Callable[["FastRequest", bytes, Reply], bool]
"""Has a row under the head of a request answered later; false where it has to go the way of every request. May raise."""


class Quick(Protocol):
    """How rows under a known head are processed: `web/plain_rows.py` predicts them, `web/observe.py` has them logged."""

    @property
    def take(self) -> Take | None:
        """The function that takes each row that `heard` returns; None if `heard` returns answers."""
        ...

    def heard(self, ear: Ear, at: int, count: int) -> tuple[int, list[Asked]]:
        """Process the requests received from index `at` on that belong to this object. Returns the index of the first that does
        not, and for each request the document that answers it, or its row."""
        ...


class Again:
    """The head that a connection remembers.

    request : the admitted request, without its body; only the fields that come from the head are valid
    quick   : processes the rows of such requests
    head    : the bytes before and after the part that varies
    """

    __slots__ = ("_around", "head", "quick", "request")

    def __init__(self, request: FastRequest, quick: Quick, before: bytes, behind: bytes, size_max: int) -> None:
        self.request = replace(request, body=b"")  # the body may be long, and the connection is long-lived
        self.quick = quick
        self._around = before, behind
        self.head = Head(before, behind, request.line.method == "GET", size_max)

    def is_like(self, other: Again) -> bool:
        """Return whether another object remembers the same head."""
        return self._around == other._around


def learn(data: bytes, request: FastRequest, quick: Quick, target: bytes, target_bytes_max: int) -> Again | None:
    """Remember the head of the one request that `data` holds, exactly; None if the head is not of the common form."""
    method, body = request.line.method.encode(), request.body
    start = method + b" " + target
    head = data[: len(data) - len(body)]
    if not head.startswith(start + _VERSION) or head.find(HEAD_END) != len(head) - len(HEAD_END):
        return None
    if method == b"GET":
        stop = len(start)
        begin = stop - len(request.query)
        usual = not body and data[begin - 1 : begin] == b"?"
        size_max = len(method) + 1 + target_bytes_max + len(data) - stop
    else:
        lower = head.lower()
        begin = lower.find(_LENGTH) + len(_LENGTH)
        stop = head.find(b"\r", begin)
        usual = begin >= len(start) and lower.count(_LENGTH.rstrip()) == 1 and head[begin:stop] == b"%d" % len(body)
        size_max = len(head) + INLINE_BYTES_MAX
    return Again(request, quick, head[:begin], head[stop:], size_max) if usual else None
