"""What learners with a table of lines do alike with one row: lay it out in whole eights, and list the slots that are new.

A row whose number of features is not a multiple of eight is filled up with features of value zero, in a line of the table behind
those of all slots, which stands for none.
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
SPREAD_MAX: Final = AHEAD // 2  # features: longer rows ask for everything as they are gathered, else it would come too late


class Room(NamedTuple):
    """Memory for one row in whole eights: where its lines start, for as many rows as are laid out at once, and columns. Two
    arrays, since each that a kernel is given costs a third of a microsecond a call. Both begin with a cache line: eight numbers
    that lie across two take the machine twice as long, and longer yet where they were written a moment ago."""

    start: U32
    columns: F64


def room_for(features: int, columns: int, rows: int = 1) -> Room:
    """Room for a row of so many features, of which so many are laid out at once."""
    length = -(-features // _LINE_STARTS) * _LINE_STARTS
    start, column = np.empty(rows * length + _LINE_STARTS, np.uint32), np.empty(columns * length + WIDTH)
    return Room(
        aligned(start, rows * length, _LINE_BYTES).reshape(rows, length),
        aligned(column, columns * length, _LINE_BYTES).reshape(columns, length),
    )


@inline_kernel
def prefetch_first(line: F64, rows: Rows, shift: int) -> None:
    """Start to fetch what the first features want, which no feature before them has asked for.

    Source    this module
    """
    for p in range(0, min(AHEAD, len(rows.hash) - WIDTH + 1), WIDTH):
        ask(line, rows.hash, p, shift - (line.shape[1] >> 1))


@inline_kernel
def prefetch_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Start to fetch what will be wanted some features after feature p: eight lines and, later still, values.

    Source    this package's measurements
    """
    if p + AHEAD + WIDTH <= len(rows.hash):
        ask(line, rows.hash, p + AHEAD, shift - (width >> 1))
        prefetch(rows.value, p + 2 * AHEAD)  # the machine does not see by itself that rows lie in order


@inline_kernel
def prefetch_half_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Start to fetch the four lines that will be wanted some features after feature p.

    Source    this package's measurements
    """
    if p + AHEAD + HALF <= len(rows.hash):
        ask_half(line, rows.hash, p + AHEAD, shift - (width >> 1))


@inline_kernel
def prefetch_quarter_later(line: F64, rows: Rows, p: int, shift: int, width: int) -> None:
    """Start to fetch the two lines that will be wanted some features after feature p.

    Source    this package's measurements
    """
    if p + AHEAD + QUARTER <= len(rows.hash):
        ask_quarter(line, rows.hash, p + AHEAD, shift - (width >> 1))


@inline_kernel
def prefetch_rest(line: F64, rows: Rows, i: int, shift: int, width: int) -> None:
    """Start to fetch what `prefetch_half_later` has left out, for a row i that has nothing else to do meanwhile.

    Source    this module
    """
    first, end = rows.indptr[i], rows.indptr[i + 1]
    if end - first <= SPREAD_MAX:
        for p in range(first + HALF, end + HALF, WIDTH):
            prefetch_half_later(line, rows, p, shift, width)


@inline_kernel
def lay_out(rows: Rows, i: int, place: tuple[int, int, int], start: U32, x: F64) -> int:
    """Write down where the lines of row i start and its values, in whole eights.

    Parameters
    ----------
    rows : Rows            read only
    i : int                which row
    place                  shift: slot = hash >> shift; width of a line, 2 or 4; where the line for no slot starts
    start : u32            overwritten: the slots times the width
    x : f64                overwritten: the sum of the row's values that fall on each

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
    """Write down those of the eight slots listed[p:p + 8] whose flag is up, and their weights, behind the `kept` <= p that are
    there already; `slot` may be `listed`. Returns how many there are then.

    Source    this module
    """
    copy_eight(listed, p, slot, kept)
    store(beta, kept, weights)
    if keep == ALL:
        return kept + WIDTH
    to = kept
    for lane in range(WIDTH):  # no machine can guess which stay: each is written, the next one may go over it
        slot[to] = slot[kept + lane]
        beta[to] = beta[kept + lane]
        to += keep >> lane & 1
    return to


@inline_kernel
def write_down(slots: U32, count: int, found: int, start: U32, j: int, width: int) -> int:
    """Append those of the eight slots from j on whose flag is up to a list of `count`; returns how many it has then.

    Source    this module
    """
    if found:
        for lane in range(WIDTH):
            slots[count] = start[j + lane] // np.uint32(width)  # no machine can guess: each is written, the next may go over it
            count += found >> lane & 1
    return count
