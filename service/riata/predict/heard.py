"""Rows from their sockets, and to the answers of those to predict, in a compiled call each for all that have come.

Theory of operation
    What comes on a connection goes through the event loop, which reads it, makes bytes of it and calls back; then its head is
    compared, its row copied, and everything that an answer depends on is asked for, once for each request. That is more than
    the answer takes. So connections that ask the same again and again have their sockets in an `epoll` of their own
    (`web/audience.py`). `hear_rows` asks it which of them have something, takes that, and compares it with the head that each
    is expected to say (`web/again.py`); `answer_rows` has the kernel of `predict.one_row` answer those of one model behind
    each other. Both do without the interpreter; the second keeps its lock, since another thread would not give it back soon.
    Rows to learn are only cut out here (`Ear.rows`): they are answered by other threads.

    Whatever else has come is handed out as it came: it is as if the loop had read it. The end of a connection and its errors
    are left to the loop, which meets them too.

An `Ear` belongs to one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, cast

import numpy as np

from riata.base.arrays import I64, U8
from riata.jit.kernel import inline_kernel, kernel, quick_kernel
from riata.jit.raw.address import array_at
from riata.jit.raw.memory import peek, poke
from riata.maths.sockets import CAN_HEAR, READY_SOCKET, READY_WORDS, ready, receive
from riata.predict.model import Origin, empty_model
from riata.predict.one_row import BYTES_MAX, LEFT, OneRow, Plan, address_of, answer_row, plan_of
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context

HEARD_BYTES: Final = 64 * 2**10  # of one socket at once; what is longer comes in parts, as from a loop
ROOM_BYTES: Final = 4 * HEARD_BYTES  # of all that is heard in one turn
AT_ONCE: Final = 64  # sockets in one turn
LOOKS: Final = 16  # where nothing has come yet, before others have their turn: some microseconds
# Words of a `Head`.
IS_QUERY, SIZE_MAX, BEFORE, BEFORE_BYTES, BEHIND, BEHIND_BYTES = range(6)
HEAD_WORDS: Final = 6
# Words of a seat: where the words of its head are, and whose rows it asks for.
HEAD, GROUP = range(2)
SEAT_WORDS: Final = 2
SEATS: Final = 256  # at first; the number of a socket is its place among them
# Words of what was heard at one socket: the bytes that have come, those of the row in them (-1 where the head is another one),
# whose it is, and what `answer_row` gives.
SOCKET, BEGIN, SIZE, ROW, LENGTH, JSON, OF_GROUP, MARGIN, PROBABILITY, LABEL, KNOWN, UNKNOWN = range(12)
HEARD_WORDS: Final = 12
_UNPACKED: Final = struct.Struct("qqq32xdddqq")  # what of these words Python asks for
_FOUND_BYTES: Final = 8 * HEARD_WORDS * AT_ONCE
DIGITS_MAX: Final = 6  # of the length of a body
_ZERO, _NINE, _DELETE = 0x30, 0x39, 0x7F
Heard = tuple[int, int, int, float, float, float, int, int]  # socket, where its bytes begin, how many; the rest as in a RowAnswer
Asked = tuple[int, int, int, bytes | None]  # the same, and what is asked for: None where that is not known


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
def row_behind(heard: U8, start: int, size: int, head: I64) -> tuple[int, int]:
    """Where the row of a request of `size` bytes from `start` begins, and how long it is: -1 where the head is another.

    Source: web/again.
    """
    before, behind, stop = head[BEFORE_BYTES], head[BEHIND_BYTES], start + size
    if size > head[SIZE_MAX] or size < before + behind:
        return 0, -1
    if head[IS_QUERY]:
        begin, row_stop = start + before, stop - behind
        known = same(heard, start, head[BEFORE], before) and same(heard, row_stop, head[BEHIND], behind)
        return begin, row_stop - begin if known else -1
    digits = start + before
    p, length = digits, 0
    while p < stop and p - digits < DIGITS_MAX and _ZERO <= peek(heard, p) <= _NINE:
        length = 10 * length + int(peek(heard, p)) - _ZERO
        p += 1
    begin = p + behind
    if p == digits or begin + length != stop or (peek(heard, digits) == _ZERO and p > digits + 1):
        return 0, -1
    known = same(heard, start, head[BEFORE], before) and same(heard, p, head[BEHIND], behind)
    return begin, length if known else -1


@kernel
def hear_rows(epoll: int, alone: int, looks: int, seats_at: int, room_at: int, found_at: int) -> int:
    """Take what has come on some sockets, and find the rows in it. Arrays come by addresses (`jit.raw.address`).

    Parameters
    ----------
    epoll : int        of sockets that have a seat, its number in the system
    alone : int        one of them that is asked before the epoll, which is the shorter way; -1 for none
    looks : int        how often is asked at most, where nothing has come
    seats_at : int     i64[any, SEAT_WORDS], by the number of the socket; read only
    room_at : int      u8[ROOM_BYTES], overwritten with what has come
    found_at : int     i64[AT_ONCE, HEARD_WORDS], and i32[AT_ONCE, READY_WORDS] behind it; overwritten. The size is 0 where
                       nothing will come any more, -1 where something is wrong

    Returns            of how many sockets there is something in `found`
    Cost               a call of the system for each look and each socket; one look at each byte of a head
    Source             this module's theory of operation
    """
    room = array_at(room_at, (ROOM_BYTES,), np.uint8)
    found = array_at(found_at, (HEARD_WORDS * AT_ONCE,), np.int64)
    sockets = array_at(found_at + _FOUND_BYTES, (READY_WORDS * AT_ONCE,), np.int32)
    count, first = 0, -1
    for _ in range(looks):
        first = receive(alone, room_at, HEARD_BYTES) if alone >= 0 else -1
        count = 1 if first >= 0 else 0 if alone >= 0 else ready(epoll, found_at + _FOUND_BYTES, AT_ONCE)
        if count > 0:
            break
    if first >= 0:
        sockets[READY_SOCKET] = alone
    elif alone >= 0:
        count = ready(epoll, found_at + _FOUND_BYTES, AT_ONCE)
    heard, begin = 0, 0
    while heard < count and begin + HEARD_BYTES <= ROOM_BYTES:
        socket = int(sockets[READY_WORDS * heard + READY_SOCKET])
        seat = array_at(seats_at + 8 * SEAT_WORDS * socket, (SEAT_WORDS,), np.int64)
        head = array_at(seat[HEAD], (HEAD_WORDS,), np.int64)
        size = first if first >= 0 else receive(socket, room_at + begin, HEARD_BYTES)
        row, length = row_behind(room, begin, size, head)
        at = HEARD_WORDS * heard
        found[at + SOCKET], found[at + BEGIN], found[at + SIZE], found[at + ROW] = socket, begin, size, row
        found[at + LENGTH], found[at + JSON], found[at + OF_GROUP] = length, 1 - head[IS_QUERY], seat[GROUP]
        begin += max(size, 0)
        heard += 1
    return heard


@quick_kernel
def answer_rows(found_at: int, first: int, count: int, room_at: int, block_at: int, plan_at: int) -> int:
    """Answer what was heard from `first` on, as far as it is of one group. Arrays come by addresses (`jit.raw.address`).

    Parameters
    ----------
    found_at : int     what `hear_rows` found; the answers are written to it, LEFT where a row is not ASCII or too long, or none
    first, count : int which of it: `first` up to `count`
    room_at : int      u8[ROOM_BYTES], what has come; read only
    block_at : int     u8[BLOCK_BYTES] of `predict.one_row`, overwritten
    plan_at : int      the words of a `Plan`; 0 where all are left

    Returns            where the next group begins
    Cost               that of `answer_row` for each
    Source             this module's theory of operation
    """
    room, block = array_at(room_at, (ROOM_BYTES,), np.uint8), array_at(block_at, (BYTES_MAX,), np.uint8)
    found = array_at(found_at, (HEARD_WORDS * AT_ONCE,), np.int64)
    answers = array_at(found_at, (HEARD_WORDS * AT_ONCE,), np.float64)
    group = found[HEARD_WORDS * first + OF_GROUP]
    while first < count and found[HEARD_WORDS * first + OF_GROUP] == group:
        at = HEARD_WORDS * first
        row, length = found[at + ROW], found[at + LENGTH]
        answer = LEFT
        if plan_at != 0 and 0 <= length <= BYTES_MAX:
            every = np.uint8(0)
            for i in range(length):
                c = peek(room, row + i)
                every |= c
                poke(block, i, c)
            if every <= _DELETE:
                answer = answer_row(block_at, length, found[at + JSON] == 1, plan_at)
        answers[at + MARGIN], answers[at + PROBABILITY], answers[at + LABEL] = answer[0], answer[1], answer[2]
        found[at + KNOWN], found[at + UNKNOWN] = answer[3], answer[4]
        first += 1
    return first


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
    """The room of one thread for what it hears, and the seats of those who are heard."""

    def __init__(self, row: OneRow) -> None:
        self._room = np.zeros(ROOM_BYTES, np.uint8)
        self._found = np.zeros(_FOUND_BYTES + 4 * READY_WORDS * AT_ONCE, np.uint8)
        self._room_bytes, self._found_bytes = memoryview(self._room.data), memoryview(self._found.data)
        self._found_words = self._found_bytes[:_FOUND_BYTES].cast("q")
        self._room_at, self._found_at, self._row = address_of(self._room), address_of(self._found), row
        self._seats = np.zeros((SEATS, SEAT_WORDS), np.int64)
        self._seats_at = address_of(self._seats)

    def seat(self, socket: int, head: Head, group: int) -> None:
        """Have a socket heard for requests with this head, until another one is said. The caller keeps the head."""
        if socket >= len(self._seats):
            seats = np.zeros((2 * socket, SEAT_WORDS), np.int64)
            seats[: len(self._seats)] = self._seats
            self._seats, self._seats_at = seats, address_of(seats)
        self._seats[socket] = head.at, group

    def hear(self, epoll: int, looks: int = 1, alone: int = -1) -> int:
        """See `hear_rows`: how many sockets had something. All that are in the epoll have a seat."""
        return hear_rows(epoll, alone, looks, self._seats_at, self._room_at, self._found_at)

    def answer(self, first: int, count: int, plan: Plan | None) -> int:
        """See `answer_rows`: where the rows of another group begin. The caller keeps the plan's model."""
        return answer_rows(self._found_at, first, count, self._room_at, self._row.at, 0 if plan is None else plan.at)

    def found(self, first: int, stop: int) -> Iterator[Heard]:
        """What was heard, and answered, from one place to another."""
        words = self._found_bytes[8 * HEARD_WORDS * first : 8 * HEARD_WORDS * stop]
        return cast(Iterator[Heard], _UNPACKED.iter_unpack(words))

    def rows(self, first: int, count: int) -> tuple[int, list[Asked]]:
        """The rows of what was heard from `first` on, as far as it is of one group; where those of another begin."""
        words, found = self._found_words, []
        group = words[HEARD_WORDS * first + OF_GROUP]
        while first < count and words[HEARD_WORDS * first + OF_GROUP] == group:
            socket, begin, size, row, length = words[HEARD_WORDS * first : HEARD_WORDS * first + JSON].tolist()
            found.append((socket, begin, size, None if length < 0 else self.said(row, length)))
            first += 1
        return first, found

    def socket(self, at: int) -> int:
        """The socket at which something was heard."""
        return self._found_words[HEARD_WORDS * at]

    def said(self, begin: int, size: int) -> bytes:
        """Some bytes of what was heard last."""
        return self._room_bytes[begin : begin + size].tobytes()


def warm_up() -> None:
    """Compile what is needed here, or load it from disk."""
    if CAN_HEAR:
        model = empty_model(Origin("warm-up", bytes(16), "", "0/1"), "logistic", 1, 0)
        plan = plan_of(model, Context(EncoderConfig(bits=1)))
        ear = Ear(OneRow())
        ear.answer(0, ear.hear(-1), plan)
