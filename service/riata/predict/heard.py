"""One row to predict, from the socket to its answer in one compiled call.

Theory of operation
    What comes on a connection goes through the event loop, which asks for all of its sockets, reads, makes bytes of it and calls
    back; then its head is compared, and its row copied. That is more than the answer takes, and while it lasts the client's core
    goes to sleep. So while a loop stays awake after an answer anyway (`web/busy_poll.py`), the socket of the client that was
    answered last is asked from here, a few times and without waiting. Where what has come is a head that is known
    (`web/again.py`) with another row, the row is answered by the kernel of `predict.one_row` at once.

    Whatever else has come is handed out as it came: it is as if the loop had read it. The end of a connection and its errors
    are left to the loop, which meets them too.

An `Ear` belongs to one thread.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.maths.at import array_at
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.raw import peek, poke
from riata.maths.sockets import receive
from riata.predict.model import Origin, empty_model
from riata.predict.one_row import BYTES_MAX, LEFT, OneRow, Plan, RowAnswer, address_of, answer_row, plan_of
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context

HEARD_BYTES: Final = 64 * 2**10  # at once; what is longer comes in parts, as from a loop
LOOKS: Final = 16  # at a socket, before the others have their turn: some microseconds
# Words of a `Head`.
IS_QUERY, SIZE_MAX, BEFORE, BEFORE_BYTES, BEHIND, BEHIND_BYTES = range(6)
HEAD_WORDS: Final = 6
DIGITS_MAX: Final = 6  # of the length of a body
_ZERO, _NINE, _DELETE = 0x30, 0x39, 0x7F
Heard = tuple[int, RowAnswer]


@inline_kernel
def same(heard: U8, at: int, other_at: int, size: int) -> bool:
    """Whether `size` bytes from `at` are those at an address, in a time that does not tell how many are: they may hold a key.

    Source: `hmac.compare_digest`.
    """
    other = array_at(other_at, (size,), np.uint8)
    different = np.uint8(0)
    for i in range(size):
        different |= peek(heard, at + i) ^ peek(other, i)
    return bool(different == 0)


@inline_kernel
def row_behind(heard: U8, size: int, head: I64) -> tuple[int, int]:
    """Where the row of a request of `size` bytes begins, and how long it is: -1 where the head is another. Source: web/again."""
    before, behind = head[BEFORE_BYTES], head[BEHIND_BYTES]
    if size > head[SIZE_MAX] or size < before + behind:
        return 0, -1
    if head[IS_QUERY]:
        stop = size - behind
        known = same(heard, 0, head[BEFORE], before) and same(heard, stop, head[BEHIND], behind)
        return before, stop - before if known else -1
    p, length = before, 0
    while p < size and p - before < DIGITS_MAX and _ZERO <= peek(heard, p) <= _NINE:
        length = 10 * length + int(peek(heard, p)) - _ZERO
        p += 1
    begin = p + behind
    if p == before or begin + length != size or (peek(heard, before) == _ZERO and p > before + 1):
        return 0, -1
    known = same(heard, 0, head[BEFORE], before) and same(heard, p, head[BEHIND], behind)
    return begin, length if known else -1


@kernel
def hear_row(socket: int, looks: int, heard_at: int, head_at: int, block_at: int, plan_at: int) -> Heard:
    """Ask a socket for a request, a few times, and answer it where its head is known. Arrays come by addresses (`maths.at`).

    Parameters
    ----------
    socket : int       its number in the system
    looks : int        how often it is asked at most
    heard_at : int     u8[HEARD_BYTES], overwritten with what has come
    head_at : int      i64[HEAD_WORDS], the words of a `Head`; read only
    block_at : int     u8[BLOCK_BYTES] of `predict.one_row`, overwritten
    plan_at : int      the words of a `Plan`; read only

    Returns            how many bytes have come: 0 where nothing will come any more, -1 where nothing has come or something is
                       wrong; and what `answer_row` gives, LEFT where the head is another one, or the row is not ASCII or too long
    Cost               a call of the system for each look; that of `answer_row`
    Source             this module's theory of operation
    """
    heard = array_at(heard_at, (HEARD_BYTES,), np.uint8)
    head, block = array_at(head_at, (HEAD_WORDS,), np.int64), array_at(block_at, (BYTES_MAX,), np.uint8)
    size = -1
    for _ in range(looks):
        size = receive(socket, heard_at, HEARD_BYTES)
        if size >= 0:
            break
    if size <= 0:
        return size, LEFT
    begin, length = row_behind(heard, size, head)
    if not 0 <= length <= BYTES_MAX:
        return size, LEFT
    every = np.uint8(0)
    for i in range(length):
        c = peek(heard, begin + i)
        every |= c
        poke(block, i, c)
    if every > _DELETE:
        return size, LEFT
    return size, answer_row(block_at, length, head[IS_QUERY] == 0, plan_at)


class Head:
    """The bytes in front of what differs from request to request, and behind it, as `hear_row` compares them.

    `size_max` is the most that a whole request may have. What differs is a query, or the digits of the length of a body.
    """

    __slots__ = ("_before", "_behind", "_words", "at")

    def __init__(self, before: bytes, behind: bytes, is_query: bool, size_max: int) -> None:
        self._before, self._behind = np.frombuffer(before, np.uint8), np.frombuffer(behind, np.uint8)
        words = np.zeros(HEAD_WORDS, np.int64)
        words[IS_QUERY], words[SIZE_MAX] = is_query, size_max
        words[BEFORE], words[BEFORE_BYTES] = address_of(self._before), len(before)
        words[BEHIND], words[BEHIND_BYTES] = address_of(self._behind), len(behind)
        self._words = words
        self.at = address_of(words)


class Ear:
    """The room of one thread for what it hears. Rows are answered in the block of `row`."""

    def __init__(self, row: OneRow) -> None:
        self._room = np.zeros(HEARD_BYTES, np.uint8)
        self._bytes = memoryview(self._room.data)
        self._at = address_of(self._room)
        self._row = row

    def listen(self, socket: int, head: Head, plan: Plan, looks: int = LOOKS) -> Heard:
        """See `hear_row`. The caller keeps the plan's model."""
        return hear_row(socket, looks, self._at, head.at, self._row.at, plan.at)

    def said(self, size: int) -> bytes:
        """The first `size` bytes of what was heard last."""
        return self._bytes[:size].tobytes()


def warm_up() -> None:
    """Compile what is needed here, or load it from disk."""
    model = empty_model(Origin("warm-up", bytes(16), "", "0/1"), "logistic", 1, 0)
    plan = plan_of(model, Context(EncoderConfig(bits=1)))
    Ear(OneRow()).listen(-1, Head(b" ", b" ", True, 0), plan, looks=0)
