"""Scratch memory that a thread reuses from one body to the next, so that reading allocates nothing.

Fresh memory costs more than reading: the system provides it page by page, and clears every page. Results are copied out of the
scratch, so the next body may overwrite it. The exception are the features of a long body, which are most of its result: they stay
in place, and the next body gets memory that a `FeaturePool` lends to arrays until the last of them is gone (`leave_features`).
A body above KEPT_BYTES_MAX gets scratch of its own, which bounds what a thread keeps. A caller with many short-lived bodies at
once lends scratch of `Workspaces` to each.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64, U8, U32
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.native.library import copy_struct
from riata.wire.rows import BatchBuilder, RecordScratch, make_row, make_sink, row_capacity

# A buffer for a body, with padding around it, so that the body can be read in place without a copy.

FRONT: Final = 8  # bytes that must be readable before a body
NEWLINE: Final = 10
_PADDING: Final = 72  # bytes that must be readable after a row
_SIDE_TIMES: Final = 3  # the side area: for strings without escapes, and for folded words, in bytes for each byte of the body


def room_of(size: int) -> int:
    """Bytes for a body of `size` bytes as readers take it: the body, a newline, the side area and padding."""
    return (1 + _SIDE_TIMES) * size + 1 + _PADDING


@dataclass(slots=True)
class Text:
    """A body, and the buffer where it is read."""

    at: int  # address of its first byte; equal to that of `data` if the body is there already
    size: int  # bytes
    data: U8  # u8[room_of(size)] written: the body, and behind it what readers write; FRONT bytes precede it
    lines: int = 0  # set by readers of lines: newlines, plus one


class PaddedBuffer:
    """A body of `size` bytes with the padding that the readers need before and after it, and one byte for a final newline.

    bytes : u8[size]        to be written before it is read
    room  : u8[room_of(size)]   the same memory and what readers need after it; FRONT bytes precede it. Pages that no reader
            touches take no memory
    """

    __slots__ = ("bytes", "room")

    def __init__(self, size: int) -> None:
        self.room: U8 = np.empty(FRONT + room_of(size), np.uint8)[FRONT:]
        self.bytes: U8 = self.room[:size]

    @classmethod
    def of(cls, content: bytes) -> PaddedBuffer:
        """A copy of `content`."""
        made = cls(len(content))
        made.bytes[:] = np.frombuffer(content, np.uint8)
        return made

    def first(self, size: int) -> PaddedBuffer:
        """Its first `size` bytes, in the same memory."""
        made = PaddedBuffer.__new__(PaddedBuffer)
        made.room, made.bytes = self.room[: room_of(size)], self.room[:size]
        return made

    def __len__(self) -> int:
        return len(self.bytes)

    def __bytes__(self) -> bytes:
        return self.bytes.tobytes()


KEPT_BYTES_MAX: Final = 4 * 2**20
_BYTES_MIN: Final = 2**14
_SPARE: Final = 8  # an eighth more than the body needs, so that the next body of about the same size fits as well
_LOANS_MAX: Final = 4  # of a pool: for batches that wait to be learnt, and for the body being read
_FEATURE_BYTES: Final = 12  # a hash and a value


@dataclass(slots=True, eq=False)
class Workspace:
    """Scratch for bodies of at most `size` bytes and models of at most this `wire.rows.growth_of`; `sink` may be replaced."""

    size: int
    growth: int
    data: U8  # FRONT bytes, and those of `room_of`
    row: RecordScratch
    sink: BatchBuilder

    def emptied(self) -> BatchBuilder:
        """The sink, empty; readers set all fields of a row themselves."""
        self.sink.count.fill(0)
        return self.sink

    def room(self, size: int) -> U8:
        """The buffer in which a body of `size` bytes is read; a caller that writes the body there directly saves a copy."""
        return self.data[FRONT : FRONT + size]


def make_workspace(size: int, growth: int) -> Workspace:
    """Allocate a workspace; pages that no body reaches are never touched."""
    rows = min(size // 2 + 1, ROWS_PER_REQUEST_MAX)
    return Workspace(
        size=size,
        growth=growth,
        data=np.zeros(FRONT + room_of(size), np.uint8),
        row=make_row(row_capacity(size, growth)),
        sink=make_sink(size, rows, growth),
    )


class _Kept(threading.local):
    def __init__(self) -> None:
        self.held: Workspace | None = None
        self.pool = FeaturePool(0)


class FeaturePool:
    """Memory for `size` features of a long body each, lent to arrays. It comes back when the last of them is gone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._made = 0
        self._free: deque[U8] = deque()  # appended to by whichever thread drops the last array

    def lend(self) -> tuple[U32, F64] | None:
        """Return arrays for hashes and values; None if all memory is lent and no more may be allocated."""
        try:
            memory = self._free.pop()
        except IndexError:
            if self._made == _LOANS_MAX:
                return None
            self._made += 1
            memory = np.empty(self._size * _FEATURE_BYTES, np.uint8)
        lent = np.asarray(_Loan(memory, self._free))
        values = self._size * np.dtype(np.float64).itemsize
        return lent[values:].view(np.uint32), lent[:values].view(np.float64)


class _Loan:
    """The base of the arrays on `memory`: every array and view holds a reference to it. Its end gives the memory back."""

    def __init__(self, memory: U8, free: deque[U8]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._free = memory, free

    def __del__(self) -> None:
        self._free.append(self._memory)


_kept = _Kept()


def workspace(size: int, growth: int) -> Workspace:
    """Scratch of this thread for a body of `size` bytes; valid until the thread calls this again."""
    held = _kept.held
    if held is not None and size <= held.size and growth <= held.growth:
        return held
    if size > KEPT_BYTES_MAX:
        return make_workspace(size, growth)
    if held is not None:
        size, growth = max(size, held.size), max(growth, held.growth)
    made = make_workspace(max(_BYTES_MIN, 1 << (size - 1).bit_length()), growth)
    _kept.held, _kept.pool = made, FeaturePool(len(made.sink.hash))
    return made


def leave_features(sink: BatchBuilder) -> bool:
    """Return whether the features in `sink` may stay in place. If so, the next body gets other memory for its features.

    `sink` must be of this thread's scratch.
    """
    held = _kept.held
    if held is None or held.sink.hash is not sink.hash or (lent := _kept.pool.lend()) is None:
        return False
    native = copy_struct(held.sink.native)
    native.hash, native.value = lent
    held.sink = held.sink._replace(hash=lent[0], value=lent[1], native=native)  # `sink` belongs to the body that was read
    return True


class Workspaces:
    """A pool of scratch for any number of threads. Scratch that is given back is lent again."""

    def __init__(self, growth: int) -> None:
        self._growth = growth
        self._free: deque[Workspace] = deque()

    def lend(self, size: int) -> Workspace:
        """Take scratch for a body of `size` bytes from the pool."""
        try:
            found = self._free.pop()
        except IndexError:
            found = None
        if found is not None and size <= found.size:
            return found
        return make_workspace(max(_BYTES_MIN, size + size // _SPARE), self._growth)

    def give(self, back: Workspace) -> None:
        """Return scratch to the pool; nothing in `back` may be used any more."""
        self._free.append(back)
