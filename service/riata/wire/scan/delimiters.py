"""Positions of a row's delimiters: 64 bytes are compared at once (SIMD), and the positions are written to a list.

The readers of common rows step from position to position and never search. They check the bytes at each position, so the list is
not trusted: a row that is not as the fast path expects is left to the reader for any row.

TAIL zeros follow the last position. Position 0 is the first byte of the body, which is not a delimiter in any row that the
fast path accepts. So a reader that runs past the end of the list finds a mismatch, and stops.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import I64, U8, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.address import array_at
from riata.jit.raw.memory import (
    BLOCK,
    SPILLED,
    high_marks,
    newline_marks,
    ones,
    peek,
    poke,
    spill,
    svmlight_marks,
    vw_marks,
)
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import trailing_zeros

PADDING: Final = BLOCK + 8  # bytes that must be readable after a row
FRONT: Final = 8  # bytes that must be readable before a body that is read eight words at a time
SIDE_TIMES: Final = 3  # the side area: for strings without escapes, and for folded words, in bytes for each byte of the body
TAIL: Final = 32  # of three positions for each of eight members, and more
VW, SVMLIGHT = 1, 2
TAKEN: Final = 2**17  # bytes of a body copied at once: with the features made of them they fit a core's L2 cache
NEWLINE: Final = 10
_ROOM: Final = BLOCK + SPILLED + TAIL
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


class Text(NamedTuple):
    """A body whose rows are lines, and the buffer where it is read. `take_in` copies it part by part while it is read."""

    at: int  # address of its first byte; equal to that of `data` if the body is there already
    size: int  # bytes
    data: U8  # u8[>= size] written: the body, a newline if there is room; the fast path needs FRONT bytes before, PADDING after
    ends: I64  # i64[size + 3] written: line i is data[ends[i]:ends[i + 1] - 1]; the last place holds how many are known


def room_of(size: int) -> int:
    """Bytes for a body of `size` bytes as readers take it: the body, a newline, the side area and PADDING."""
    return (1 + SIDE_TIMES) * size + 1 + PADDING


@inline_kernel
def position(positions: U32, k: int) -> int:
    """Position k of a list of them, as a signed number. Source: this module's first paragraph."""
    return int(np.int64(peek(positions, k)))


@inline_kernel
def list_marks(positions: U32, n: int, p: int, mask: np.uint64) -> int:
    """Write the positions in a mask of the block at `p` after n others; the new count. BLOCK + SPILLED more must fit.

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
    return vw_marks(data, p) if form == VW else svmlight_marks(data, p)


@kernel
def mark_row(data: U8, p: int, stop: int, form: int, positions: U32) -> int:
    """List the delimiters from `p` to the first newline, or to `stop`, whichever comes first. The newline is included.

    Parameters
    ----------
    data : u8[...]         read only
    p, stop : int          first byte of a row; where the search ends at the latest
    form : int             VW or SVMLIGHT
    positions : u32[...]   written, followed by TAIL zeros

    Returns                how many; minus how many if a byte is above 0x7F; 0 if they do not fit, or if fewer than PADDING bytes
                           follow `stop`
    Cost                   a few operations for each 64 bytes, three for each delimiter
    Source                 Langdale and Lemire 2019, "Parsing gigabytes of JSON per second", sections 3.1.1 and 3.1.2
    """
    n, high = 0, _NOTHING
    if stop + PADDING > len(data):
        return 0
    while p <= stop:
        if n + _ROOM > len(positions):
            return 0
        mask, newline = marks_of(data, p, form), newline_marks(data, p)
        mask &= newline ^ (newline - _ONE)  # the bits up to the first newline; all if there is none
        high |= high_marks(data, p) & (newline ^ (newline - _ONE))
        n = list_marks(positions, n, p, mask)
        p = stop + 1 if newline != _NOTHING else p + BLOCK
    for k in range(TAIL):
        poke(positions, n + k, np.uint32(0))
    return n if high == _NOTHING else -n


@kernel
def take_in(text: Text, known: int, taken: int) -> tuple[int, int]:
    """Copy the next part of a body to where it is read, until at least one more line is complete, and list the ends of lines.

    Parameters
    ----------
    text : Text            `data` and `ends` are written
    known, taken : int     what the previous call returned; 0 and 0 at first

    Returns                how many lines are known, unchanged if there are no more; how many bytes are copied so far
    Cost                   a few operations for each 64 bytes. Readers call it when they have no line left, not for every line:
                           the overhead of a call that does nothing is 30 ns, a quarter of a short row
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
        if stop == text.size:  # the last line ends like the others
            if stop < len(data):
                data[stop] = NEWLINE
            known, taken = known + 1, stop + 1
            ends[known] = taken
    ends[-1] = known
    return known, taken


@inline_kernel
def list_lines(data: U8, p: int, stop: int, ends: I64, known: int) -> int:
    """Write the positions after the newlines of the bytes p:stop, after `known` others. Returns the new count. Source: as
    `take_in`."""
    while p + BLOCK <= stop:
        mask = newline_marks(data, p)
        # Written even if there is none, and overwritten then: a branch on whether a block has a newline would be mispredicted.
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
