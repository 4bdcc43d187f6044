"""Where a row's delimiters are: 64 bytes compared at once, and their positions written one behind another.

The readers of usual rows go from position to position and never search. What they find there they check, so a list of
positions is never believed: a row that is not as the reader expects is left to the reader of any row.

Behind the last position stand TAIL zeros. Position 0 is the first byte of the body, which is a delimiter of no row that a
reader of usual rows takes, so a reader that runs past the end finds something that does not fit, and stops.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8, U32
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.raw import BLOCK, SPILLED, json_marks, newline_marks, ones, peek, poke, spill, svmlight_marks, vw_marks
from riata.maths.words import trailing_zeros

PADDING: Final = BLOCK + 8  # bytes that must be there behind the last one of a row
FRONT: Final = 8  # bytes that must be there before the first one of a body, where it is read eight words at a time
TAIL: Final = 32  # of three positions for each of eight members, and more
JSON, VW, SVMLIGHT = 0, 1, 2
_ROOM: Final = BLOCK + SPILLED + TAIL
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


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
    """Mask of the delimiters of a format in the block at `p`. Source: the masks of maths.raw."""
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
def line_ends(data: U8, size: int, ends: I64) -> int:
    """Find the lines of data[:size].

    Parameters
    ----------
    data : u8[...]     read only; PADDING bytes behind `size`
    size : int
    ends : i64[...]    written: 0, and the position after each newline; room for one more than there are newlines

    Returns            how many were written
    Cost               a few operations for each 64 bytes
    Source             as `mark_row`
    """
    poke(ends, 0, 0)
    n, p = 1, 0
    while p < size:
        mask = newline_marks(data, p)
        if p + BLOCK > size:
            mask &= (_ONE << np.uint64(size - p)) - _ONE
        while mask != _NOTHING:
            poke(ends, n, p + int(np.int64(trailing_zeros(mask))) + 1)
            mask &= mask - _ONE
            n += 1
        p += BLOCK
    return n
