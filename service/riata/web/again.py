"""A request whose head is the one before it once more: what was found out about that head need not be found out again.

Theory of operation
    A client says the same head with every request, but for the query of a GET and the length of a body. What the parser and the
    checks behind it make of a head is decided by its bytes alone. So a connection remembers the bytes around the query, or around
    the length, of a request that came by itself, was let through and was answered at once, or taken to be answered later
    (`learn`). Who says the same head twice is expected to say it again, and heard together with others of his kind
    (`web/audience.py`): where nothing differs but the query, or the digits and the body that they count, it is that request
    with another row. The query has to be in plain characters, which whoever answers it sees to: no space, so that it cannot
    hold the end of a head, and no `#`, so that it is a query to its end.

    What may change without the head is asked for every time: the keys in force, an expiry, a rate, the model that is served.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from riata.predict.heard import Asked, Ear, Head
from riata.web.answers import Answer
from riata.web.settings import INLINE_BYTES_MAX

if TYPE_CHECKING:
    from riata.web.fast_lane import FastRequest

HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length: "
_VERSION: Final = b" HTTP/1.1\r\n"

Reply = Callable[[Answer], None]
Take = Callable[["FastRequest", bytes, Reply], bool]
"""Has a row under the head of a request answered later; false where it has to go the way of every request. May raise."""


class Quick(Protocol):
    """What is done with rows under a known head: `web/plain_rows.py` answers them, `web/observe.py` has them logged."""

    @property
    def take(self) -> Take | None:
        """Takes each of the rows that `heard` hands out; None where it hands out answers."""
        ...

    def heard(self, ear: Ear, at: int, count: int) -> tuple[int, list[Asked]]:
        """Look at what was heard from `at` on, as far as it is for this; returns where the next begins, and of each what it asks
        for: the document that answers it, or its row."""
        ...


class Again:
    """What a connection remembers.

    request : the one that was let through, without its body; what does not belong to the head is of no meaning
    quick   : what is done with the row of such a request
    head    : the bytes in front of what differs, and behind it
    """

    __slots__ = ("_around", "head", "quick", "request")

    def __init__(self, request: FastRequest, quick: Quick, before: bytes, behind: bytes, size_max: int) -> None:
        self.request = replace(request, body=b"")  # it may be long, and the connection lives long
        self.quick = quick
        self._around = before, behind
        self.head = Head(before, behind, request.line.method == "GET", size_max)

    def is_like(self, other: Again) -> bool:
        """Whether another one knows the same head."""
        return self._around == other._around


def learn(data: bytes, request: FastRequest, quick: Quick, target: bytes, target_bytes_max: int) -> Again | None:
    """Remember the head of a request that `data` began with and that ended with it; None where it is not of the usual form."""
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
