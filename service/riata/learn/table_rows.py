"""Steps on one row that learners with a table share: lay it out in multiples of eight, prefetch, and list the new slots.

If the number of features of a row is not a multiple of eight, it is padded with features of value zero, in a line of the table
after those of all slots, which belongs to no slot.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, U32, aligned
from riata.jit.kernel import inline_kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.jit.simd.f64x8 import ALL, WIDTH, Lanes, load, store
from riata.jit.simd.transpose import ask, ask_half, ask_quarter, copy_eight, copy_starts, first_of
from riata.maths.rows import Rows

_LINE_BYTES: Final = 64  # of the machine's cache
_LINE_STARTS: Final = 16
HALF: Final = WIDTH // 2
QUARTER: Final = WIDTH // 4
SPREAD_MAX: Final = AHEAD // 2  # features: longer rows prefetch everything in the gather, as it would come too late otherwise


class Room(NamedTuple):
    """Memory for one row in multiples of eight: where its lines start, for as many rows as are laid out at once, and columns.
    Two arrays, since each array passed to a kernel costs a third of a microsecond per call. Both are aligned to a cache line:
    access to eight numbers that cross two takes twice as long, and even longer if they were written just before."""

    start: U32
    columns: F64


def room_for(features: int, columns: int, rows: int = 1) -> Room:
    """Memory for rows of up to `features` features, `rows` of which are laid out at once."""
    length = -(-features // _LINE_STARTS) * _LINE_STARTS
    start, column = np.empty(rows * length + _LINE_STARTS, np.uint32), np.empty(columns * length + WIDTH)
    return Room(
        aligned(start, rows * length, _LINE_BYTES).reshape(rows, length),
        aligned(column, columns * length, _LINE_BYTES).reshape(columns, length),
    )


@inline_kernel
def prefetch_first(line: F64, rows: Rows, shift: int) -> None:
    """Prefetch for the first features, for which no feature before them has prefetched.

    Source    this module
    """
    for p in range(0, min(AHEAD, len(rows.hash) - WIDTH + 1), WIDTH):
        ask(line, rows.hash, p, shift - (line.shape[1] >> 1))


@inline_kernel
def prefetch_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Prefetch for features some way after feature p: eight lines and, further ahead, values.

    Source    this package's measurements
    """
    if p + AHEAD + WIDTH <= len(rows.hash):
        ask(line, rows.hash, p + AHEAD, shift - (width >> 1))
        prefetch(rows.value, p + 2 * AHEAD)  # the hardware prefetcher does not detect that rows are read in order


@inline_kernel
def prefetch_half_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Prefetch four lines for features some way after feature p.

    Source    this package's measurements
    """
    if p + AHEAD + HALF <= len(rows.hash):
        ask_half(line, rows.hash, p + AHEAD, shift - (width >> 1))


@inline_kernel
def prefetch_quarter_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Prefetch two lines for features some way after feature p.

    Source    this package's measurements
    """
    if p + AHEAD + QUARTER <= len(rows.hash):
        ask_quarter(line, rows.hash, p + AHEAD, shift - (width >> 1))


@inline_kernel
def prefetch_rest(line: F64, rows: Rows, i: int, shift: int, width: int) -> None:
    """Prefetch what `prefetch_half_later` has left out, for a row i that has no other work to overlap with.

    Source    this module
    """
    first, end = rows.indptr[i], rows.indptr[i + 1]
    if end - first <= SPREAD_MAX:
        for p in range(first + HALF, end + HALF, WIDTH):
            prefetch_half_later(line, rows, p, shift, width)


@inline_kernel
def lay_out(rows: Rows, i: int, place: tuple[int, int, int], start: U32, x: F64) -> int:
    """Write the starts of the lines of row i and its values, in multiples of eight.

    Parameters
    ----------
    rows : Rows            read only
    i : int                which row
    place                  shift: slot = hash >> shift; width of a line, 2 or 4; start of the line of no slot
    start : u32            overwritten: the slots times the width
    x : f64                overwritten: the sum of the row's values of each slot

    Returns                number of slots
    Cost                   O(features of the row), eight at once unless two share a slot
    Source                 this module
    """
    shift, width, nowhere = place
    first = rows.indptr[i]
    k = int(rows.indptr[i + 1] - first)
    again = first + k + WIDTH >= len(rows.hash)  # copy_starts would read beyond the end
    if not again:
        for j in range(0, k, WIDTH):
            # Half of 2 and 4 is their logarithm.
            again |= copy_starts(rows.hash, first + j, (k - j, shift - (width >> 1), width, nowhere), start, j)
            store(x, j, first_of(load(rows.value, first + j), k - j))
    if again:
        k = 0
        for p in range(first, rows.indptr[i + 1]):
            at = (rows.hash[p] >> np.uint32(shift)) * np.uint32(width)
            if k > 0 and at == start[k - 1]:
                x[k - 1] += rows.value[p]
            else:
                start[k] = at
                x[k] = rows.value[p]
                k += 1
        for j in range(k, (k + WIDTH - 1) // WIDTH * WIDTH):
            start[j] = nowhere
            x[j] = 0.0
    return k


@inline_kernel
def keep_some(listed: U32, p: int, weights: Lanes, keep: int, slot: U32, beta: F64, kept: int) -> int:
    """Append those of the eight slots listed[p:p + 8] whose flag is set, and their weights, to the `kept` <= p that are there
    already; `slot` may be `listed`. Returns the new number.

    Source    this module
    """
    copy_eight(listed, p, slot, kept)
    store(beta, kept, weights)
    if keep == ALL:
        return kept + WIDTH
    to = kept
    for lane in range(WIDTH):  # which stay is unpredictable: each is written, and the next may overwrite it
        slot[to] = slot[kept + lane]
        beta[to] = beta[kept + lane]
        to += keep >> lane & 1
    return to


@inline_kernel
def write_down(slots: U32, count: int, found: int, start: U32, j: int, width: int) -> int:
    """Append those of the eight slots from j on whose flag is set to a list of `count`; returns the new number.

    Source    this module
    """
    if found:
        for lane in range(WIDTH):
            slots[count] = start[j + lane] // np.uint32(width)  # unpredictable: each is written, the next may overwrite it
            count += found >> lane & 1
    return count
