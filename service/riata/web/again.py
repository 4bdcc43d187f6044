"""A request whose head is the one before it once more: what was found out about that head need not be found out again.

Theory of operation
    A client says the same head with every request, but for the query of a GET and the length of a body. What the parser and the
    checks behind it make of a head is decided by its bytes alone. So a connection remembers the bytes around the query, or around
    the length, of a request that came by itself, was let through and was answered at once, or taken to be answered later
    (`learn`). What comes next is compared with them (`Again.row`): where nothing differs but the query, or the digits and the
    body that they count, it is that request with another row. The query has to be in plain characters, which whoever answers it
    sees to: no space, so that it cannot hold the end of a head, and no `#`, so that it is a query to its end.

    Whatever is not exactly so - two requests at once, part of one, any other head - goes to the parser from its first byte, as
    if nothing had been looked at. What may change without the head is asked for every time: the keys in force, an expiry, a rate,
    the model that is served.
"""

from __future__ import annotations

import hmac
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from riata.predict.heard import DIGITS_MAX, Ear, Head
from riata.web.settings import INLINE_BYTES_MAX

Asked = tuple[int, int, int, bytes | None]  # a socket, where what came begins and its bytes, the document that answers it

if TYPE_CHECKING:
    from riata.web.fast_lane import FastRequest


class Quick(Protocol):
    """What answers rows of one model: see `web/plain_rows.py`, which has the only one."""

    def heard(self, ear: Ear, at: int, count: int) -> tuple[int, list[Asked]]:
        """Answer what was heard from `at` on, as far as it is for this."""
        ...


HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length: "
_HEADS_MAX: Final = 64  # that a connection keeps, one for each length of body that it sent
_VERSION: Final = b" HTTP/1.1\r\n"


Take = Callable[[bytes], bool]
"""Takes a row that is answered later; false where it has to go the way of every hot request, and nothing was done. May raise."""


class Again:
    """What a connection remembers.

    request : the one that was let through, without its body; what does not belong to the head is of no meaning
    quick   : answers the row of such a request, or says None and has done nothing; None where the answer comes later
    take    : takes such a row; None where only the parser is spared, and the request goes the way of every hot one
    before, behind : the bytes in front of what differs, and behind it
    head    : the same for `predict.heard`
    """

    __slots__ = ("_before", "_begin", "_behind", "_heads", "_is_query", "_same", "_size_max", "_tail", "head", "quick",
                 "request", "take")  # fmt: skip

    def __init__(self, request: FastRequest, quick: Quick | None, before: bytes, behind: bytes, size_max: int) -> None:
        self.request = replace(request, body=b"")  # it may be long, and the connection lives long
        self.quick = quick
        self.take: Take | None = None
        self._before, self._begin = before, len(before)
        self._behind, self._tail = behind, len(behind)
        self._size_max = size_max
        self._is_query = request.line.method == "GET"
        self.head = Head(before, behind, self._is_query, size_max)
        self._heads: dict[int, bytes] = {}  # of requests, by the bytes of the whole
        # A connection may serve several callers: how long it takes must not tell one how much of another's key is the same.
        self._same: Callable[[bytes, bytes], bool] = operator.eq if request.key is None else hmac.compare_digest

    def row(self, data: bytes) -> bytes | None:
        """Return the query, or the body, of a request that comes by itself and differs in nothing else; else None."""
        size, same = len(data), self._same
        if size > self._size_max:
            return None
        if self._is_query:
            begin, stop = self._begin, size - self._tail
            there = stop >= begin and same(data[:begin], self._before) and same(data[stop:], self._behind)
            return data[begin:stop] if there else None
        head = self._heads.get(size) or self._head(data)
        if head is None:
            return None
        row_at = len(head)
        return data[row_at:] if same(data[:row_at], head) else None

    def is_like(self, other: Again) -> bool:
        """Whether another one knows the same head."""
        return self._before == other._before and self._behind == other._behind

    def _head(self, data: bytes) -> bytes | None:
        """The head that what came has to have; None where it is not of this form. There is one for each size of the whole."""
        size = len(data)
        row_at = data.find(b"\r", self._begin, self._begin + DIGITS_MAX + 1) + self._tail
        head = b"%b%d%b" % (self._before, size - row_at, self._behind)
        if len(head) != row_at:
            return None
        if len(self._heads) == _HEADS_MAX:
            self._heads.clear()
        self._heads[size] = head
        return head


def learn(data: bytes, request: FastRequest, quick: Quick | None, target: bytes, target_bytes_max: int) -> Again | None:
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
