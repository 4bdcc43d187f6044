"""Where a row's delimiters are: 64 bytes compared at once, and their positions written one behind another.

The readers of usual rows go from position to position and never search. What they find there they check, so a list of
positions is never believed: a row that is not as the reader expects is left to the reader of any row.

Behind the last position stand TAIL zeros. Position 0 is the first byte of the body, which is a delimiter of no row that a
reader of usual rows takes, so a reader that runs past the end finds something that does not fit, and stops.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import I64, U8, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.address import array_at
from riata.jit.raw.memory import BLOCK, SPILLED, json_marks, newline_marks, ones, peek, poke, spill, svmlight_marks, vw_marks
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import trailing_zeros

PADDING: Final = BLOCK + 8  # bytes that must be there behind the last one of a row
FRONT: Final = 8  # bytes that must be there before the first one of a body, where it is read eight words at a time
TAIL: Final = 32  # of three positions for each of eight members, and more
JSON, VW, SVMLIGHT = 0, 1, 2
TAKEN: Final = 2**17  # bytes of a body that are taken in at once: with what becomes of them they stay in a core's second cache
NEWLINE: Final = 10
_ROOM: Final = BLOCK + SPILLED + TAIL
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


class Text(NamedTuple):
    """A body whose rows are lines, and where it is read. It is taken in part by part, while it is read (`take_in`)."""

    at: int  # address of its first byte; that of `data` where it lies there already
    size: int  # bytes
    data: U8  # u8[>= size] written: the body, and a newline if there is room; for usual rows FRONT bytes before, PADDING behind
    ends: I64  # i64[size + 3] written: line i is data[ends[i]:ends[i + 1] - 1]; the last place says how many are known


@inline_kernel
def position(positions: U32, k: int) -> int:
    """Position k of a list of them, as a signed number. Source: this module's first paragraph."""
    return int(np.int64(peek(positions, k)))


@inline_kernel
def list_marks(positions: U32, n: int, p: int, mask: np.uint64) -> int:
    """Write the positions in a mask of the block at `p` behind n others; how many there are then. BLOCK + SPILLED more have room.

    Source: as `mark_row`.
    """
    k, rest = n + SPILLED, spill(positions, n, p, mask)
    while rest != _NOTHING:
        poke(positions, k, np.uint32(p + int(np.int64(trailing_zeros(rest)))))
        rest &= rest - _ONE
        k += 1
    return n + ones(mask)


@inline_kernel
def marks_of(data: U8, p: int, form: int) -> np.uint64:
    """Mask of the delimiters of a format in the block at `p`. Source: the masks of jit.raw.memory."""
    if form == JSON:
        return json_marks(data, p)
    return vw_marks(data, p) if form == VW else svmlight_marks(data, p)


@kernel
def mark_row(data: U8, p: int, stop: int, form: int, positions: U32) -> int:
    """List the delimiters from `p` to the first newline, or to `stop`, whichever comes first; the newline is one of them.

    Parameters
    ----------
    data : u8[...]         read only
    p, stop : int          first byte of a row; where looking ends at the latest
    form : int             JSON, VW or SVMLIGHT
    positions : u32[...]   written, and TAIL zeros behind

    Returns                how many; 0 where there is not room for them, or fewer than PADDING bytes behind `stop`
    Cost                   a few operations for each 64 bytes, three for each delimiter
    Source                 Langdale and Lemire 2019, "Parsing gigabytes of JSON per second", sections 3.1.1 and 3.1.2
    """
    n = 0
    if stop + PADDING > len(data):
        return 0
    while p <= stop:
        if n + _ROOM > len(positions):
            return 0
        mask, newline = marks_of(data, p, form), newline_marks(data, p)
        mask &= newline ^ (newline - _ONE)  # the bits up to the first newline; all where there is none
        n = list_marks(positions, n, p, mask)
        p = stop + 1 if newline != _NOTHING else p + BLOCK
    for k in range(TAIL):
        poke(positions, n + k, np.uint32(0))
    return n


@kernel
def take_in(text: Text, known: int, taken: int) -> tuple[int, int]:
    """Copy what follows of a body to where it is read, until there is a line more, and say where its lines end.

    Parameters
    ----------
    text : Text            `data` and `ends` are written
    known, taken : int     what this has returned before; 0 and 0 at first

    Returns                how many lines are known, as many as before where there are no more; how many bytes were taken in
    Cost                   a few operations for each 64 bytes. Readers ask when they have no line left, not for every line: what
                           surrounds a call that does nothing takes 30 ns, a fourth of what a short row takes
    Source                 as `mark_row`; Drepper 2007, "What every programmer should know about memory", section 6.2
    """
    data, ends, source = borrow(text.data), borrow(text.ends), array_at(text.at, (text.size,), np.uint8)
    before, lies_there = known, text.at == data.ctypes.data
    ends[0] = 0
    while known == before and taken <= text.size:
        stop = min(taken + TAKEN, text.size)
        if not lies_there:
            for i in range(taken, stop):
                poke(data, i, peek(source, i))
        known = list_lines(data, taken, stop, ends, known)
        taken = stop
        if stop == text.size:  # the last line ends as the others do
            if stop < len(data):
                data[stop] = NEWLINE
            known, taken = known + 1, stop + 1
            ends[known] = taken
    ends[-1] = known
    return known, taken


@inline_kernel
def list_lines(data: U8, p: int, stop: int, ends: I64, known: int) -> int:
    """Write the positions behind the newlines of the bytes p:stop behind `known` others; how many there are then. Source: as
    `take_in`."""
    while p + BLOCK <= stop:
        mask = newline_marks(data, p)
        # Written also where there is none, and then over: whether a block has one is what the machine cannot foresee.
        poke(ends, known + 1, p + int(np.int64(trailing_zeros(mask))) + 1)
        known += int(mask != _NOTHING)
        mask &= mask - _ONE
        while mask != _NOTHING:
            known += 1
            poke(ends, known, p + int(np.int64(trailing_zeros(mask))) + 1)
            mask &= mask - _ONE
        p += BLOCK
    while p < stop:
        p += 1
        if peek(data, p - 1) == NEWLINE:
            known += 1
            poke(ends, known, p)
    return known
