"""Batched socket reads and predictions: one compiled call receives from all readable sockets, a second one predicts their rows.

Theory of operation
    On the normal path, the event loop reads each request, makes a bytes object and calls back. Then the head is compared, the row
    is copied, and everything that the answer depends on is looked up, once for each request. That costs more than the prediction.
    So connections that repeat the same request head have their sockets in a separate `epoll` (`web/audience.py`).

    `hear_rows` polls that epoll, receives from the readable sockets, and compares the bytes with the head expected of each
    connection (`web/again.py`). `answer_rows` calls the kernel of `predict.one_row` for consecutive rows of one model. Both run
    compiled. The first releases the interpreter's lock. The second keeps it, since another thread might hold it for long.
    Rows to learn are only located and copied here (`Ear.rows`): other threads answer them.

    Bytes that do not match the head are handed out unchanged, as if the loop had read them. The end of a stream and errors of a
    socket are left to the loop, which sees them too.

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

HEARD_BYTES: Final = 64 * 2**10  # received from one socket at most in one call; longer requests arrive in parts, as from a loop
ROOM_BYTES: Final = 4 * HEARD_BYTES  # received from all sockets in one call
AT_ONCE: Final = 64  # sockets in one call
LOOKS: Final = 16  # polls while nothing has arrived, before other callbacks run: some microseconds
# Words of a `Head`.
IS_QUERY, SIZE_MAX, BEFORE, BEFORE_BYTES, BEHIND, BEHIND_BYTES = range(6)
HEAD_WORDS: Final = 6
# Words of a seat, the entry of one socket: the address of the words of its head, and the group its rows belong to.
HEAD, GROUP = range(2)
SEAT_WORDS: Final = 2
SEATS: Final = 256  # initial capacity; indexed by file descriptor
# Words of the result for one socket: the bytes received, the row in them (LENGTH is -1 if the head does not match), the group,
# and the result of `answer_row`.
SOCKET, BEGIN, SIZE, ROW, LENGTH, JSON, OF_GROUP, MARGIN, PROBABILITY, LABEL, KNOWN, UNKNOWN = range(12)
HEARD_WORDS: Final = 12
_UNPACKED: Final = struct.Struct("qqq32xdddqq")  # the words that Python reads
_FOUND_BYTES: Final = 8 * HEARD_WORDS * AT_ONCE
DIGITS_MAX: Final = 6  # of a Content-Length
_ZERO, _NINE, _DELETE = 0x30, 0x39, 0x7F
Heard = tuple[int, int, int, float, float, float, int, int]  # socket, offset and number of its bytes; then a RowAnswer
Asked = tuple[int, int, int, bytes | None]  # the same, and the row; None if the head does not match


@inline_kernel
def same(heard: U8, at: int, other_at: int, size: int) -> bool:
    """Constant-time comparison: whether `size` bytes from `at` equal those at an address. The bytes may contain an API key.

    Source: `hmac.compare_digest`.
    """
    other = array_at(other_at, (size,), np.uint8)
    different = np.uint8(0)
    for i in range(size):
        different |= peek(heard, at + i) ^ peek(other, i)
    return bool(different == 0)


@inline_kernel
def row_behind(heard: U8, start: int, size: int, head: I64) -> tuple[int, int]:
    """Offset and length of the row in a request of `size` bytes from `start`; length -1 if the head does not match.

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
    """Receive from the readable sockets, and find the row in each request. Arrays are passed by address (`jit.raw.address`).

    Parameters
    ----------
    epoll : int        file descriptor of the epoll; all its sockets have a seat
    alone : int        one of its sockets that is read before the epoll is polled, which is faster; -1 for none
    looks : int        polls at most, while nothing has arrived
    seats_at : int     i64[any, SEAT_WORDS], indexed by file descriptor; read only
    room_at : int      u8[ROOM_BYTES], overwritten with the bytes received
    found_at : int     i64[AT_ONCE, HEARD_WORDS], followed by i32[AT_ONCE, READY_WORDS]; overwritten. SIZE is 0 at the end of the
                       stream, -1 after an error

    Returns            number of sockets in `found`
    Cost               one system call for each poll and each socket; one pass over the bytes of each head
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
    """Predict the rows received, from `first` to the end of its group. Arrays are passed by address (`jit.raw.address`).

    Parameters
    ----------
    found_at : int     the results of `hear_rows`; answers are written to it: LEFT if there is no row, or it is not ASCII, or too
                       long
    first, count : int the results to consider: `first` up to `count`
    room_at : int      u8[ROOM_BYTES], the bytes received; read only
    block_at : int     u8[BLOCK_BYTES] of `predict.one_row`, overwritten
    plan_at : int      the words of a `Plan`; 0 to write LEFT for all rows

    Returns            index of the first result of the next group
    Cost               that of `answer_row` for each row
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
    """The bytes of a request head before and after the part that varies between requests, as `row_behind` compares them.

    The part that varies is the query, or the digits of the Content-Length. `size_max` is the largest size of a whole request.
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
    """The receive buffer of one thread, and the seats of the sockets it reads: the head expected of each, and its group."""

    def __init__(self, row: OneRow) -> None:
        self._room = np.zeros(ROOM_BYTES, np.uint8)
        self._found = np.zeros(_FOUND_BYTES + 4 * READY_WORDS * AT_ONCE, np.uint8)
        self._room_bytes, self._found_bytes = memoryview(self._room.data), memoryview(self._found.data)
        self._found_words = self._found_bytes[:_FOUND_BYTES].cast("q")
        self._room_at, self._found_at, self._row = address_of(self._room), address_of(self._found), row
        self._seats = np.zeros((SEATS, SEAT_WORDS), np.int64)
        self._seats_at = address_of(self._seats)

    def seat(self, socket: int, head: Head, group: int) -> None:
        """Set the head expected of a socket, and its group, until the next call. The caller keeps the head alive."""
        if socket >= len(self._seats):
            seats = np.zeros((2 * socket, SEAT_WORDS), np.int64)
            seats[: len(self._seats)] = self._seats
            self._seats, self._seats_at = seats, address_of(seats)
        self._seats[socket] = head.at, group

    def hear(self, epoll: int, looks: int = 1, alone: int = -1) -> int:
        """Call `hear_rows`. Returns the number of sockets with results. All sockets in the epoll must have a seat."""
        return hear_rows(epoll, alone, looks, self._seats_at, self._room_at, self._found_at)

    def answer(self, first: int, count: int, plan: Plan | None) -> int:
        """Call `answer_rows`. Returns the index of the first result of the next group. The caller keeps the plan's model."""
        return answer_rows(self._found_at, first, count, self._room_at, self._row.at, 0 if plan is None else plan.at)

    def found(self, first: int, stop: int) -> Iterator[Heard]:
        """The results `first:stop`, with their answers."""
        words = self._found_bytes[8 * HEARD_WORDS * first : 8 * HEARD_WORDS * stop]
        return cast(Iterator[Heard], _UNPACKED.iter_unpack(words))

    def rows(self, first: int, count: int) -> tuple[int, list[Asked]]:
        """The index of the first result of the next group, and the rows received from `first` up to it."""
        words, found = self._found_words, []
        group = words[HEARD_WORDS * first + OF_GROUP]
        while first < count and words[HEARD_WORDS * first + OF_GROUP] == group:
            socket, begin, size, row, length = words[HEARD_WORDS * first : HEARD_WORDS * first + JSON].tolist()
            found.append((socket, begin, size, None if length < 0 else self.said(row, length)))
            first += 1
        return first, found

    def socket(self, at: int) -> int:
        """The file descriptor of result `at`."""
        return self._found_words[HEARD_WORDS * at]

    def said(self, begin: int, size: int) -> bytes:
        """Copy `size` bytes of the last call's receive buffer."""
        return self._room_bytes[begin : begin + size].tobytes()


def warm_up() -> None:
    """Compile the kernels of this module, or load them from disk."""
    if CAN_HEAR:
        model = empty_model(Origin("warm-up", bytes(16), "", "0/1"), "logistic", 1, 0)
        plan = plan_of(model, Context(EncoderConfig(bits=1)))
        ear = Ear(OneRow())
        ear.answer(0, ear.hear(-1), plan)
