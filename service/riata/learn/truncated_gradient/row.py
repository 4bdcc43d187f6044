"""One row of truncated gradient between the table and the scratch columns: gather, write back, and collect non-zero weights.

`gather_row` reads the weights as of now and adds up the margin, in the order of the hashes. `truncated_gradient.rate` computes
the new numbers. Only `write_row` writes, and it is called only if every number it would write is finite. So a refused row
changes nothing.

The table has one line of float64 for each slot: weight, clock at last touch, and for the adaptive rate the sum of squared
gradients and the scale (largest |x| seen). If features are not normalised there is no scale, and the rate is in its place: a
function of the sum, stored because the next touch would otherwise need a root and a division.

Two hashes of a row that share a slot are adjacent, since slots are the top bits of sorted hashes. Their products enter the margin
one by one, and their values add up to one feature of the gradient.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U8, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.jit.simd.f64x8 import WIDTH, Lanes, add_up, flags, load, size, spread, store, where
from riata.jit.simd.transpose import read_four, read_two, starts_of, write_four, write_two
from riata.learn.table_rows import (
    HALF,
    QUARTER,
    SPREAD_MAX,
    keep_some,
    lay_out,
    prefetch_half_later,
    prefetch_quarter_later,
    write_down,
)
from riata.learn.truncated_gradient.columns import NEVER
from riata.learn.truncated_gradient.rate import (
    Scratch,
    Settings,
    inverse_roots,
    shrink_unit,
    squared_length,
    stretch,
    weight_now,
    weights_now,
    weights_one_by_one,
    width_of,
)
from riata.maths.rows import Rows, add_products
from riata.maths.truncation import SUBGRADIENT, on_grid

BETA: Final = 0  # columns of the table
TAU: Final = 1
SQUARES: Final = 2
SCALE: Final = 3
RATE: Final = 3

CLOCK: Final = 0  # entries of Table.scalars
CLOCK_LOST: Final = 1  # the accumulated rounding error of CLOCK (Neumaier)
INTERCEPT: Final = 2
INTERCEPT_SQUARES: Final = 3
NORM: Final = 4  # sum over learnt rows of importance * sum_j (x_j / scale_j)^2
IMPORTANCE: Final = 5  # sum of the importance of the learnt rows
GAIN: Final = 6  # calibration: a margin is gain * (intercept + weights . x) + offset
OFFSET: Final = 7
GAIN_SQUARES: Final = 8
OFFSET_SQUARES: Final = 9
SCALARS: Final = 10

SAFE: Final = 2.0**500  # if absolute values add up to less, the sum of squares is finite

LEARNT: Final = 0  # entries of Table.counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
N_COLUMNS: Final = 3
COUNTS: Final = 4


class Table(NamedTuple):
    """The state. alive lists every slot whose line has a weight, even one that truncation has made zero since; seen lists every
    slot with an accumulator. The last line belongs to no slot: features that pad a row to a multiple of eight use it, and leave
    it all zero except for the clock. column and mark are the book of `truncated_gradient.columns`; slot_of is that of the
    `SlotTable`."""

    line: F64
    alive: U32
    seen: U32
    counts: I64
    scalars: F64
    column: F64
    mark: U8
    slot_of: U32


Gathered = tuple[bool, float, float, float, float]  # what `gather_row` returns


@inline_kernel
def clock_of(table: Table) -> float:
    """The value of the truncation clock.

    Source    Neumaier 1974
    """
    return float(table.scalars[CLOCK] + table.scalars[CLOCK_LOST])


@inline_kernel
def lay_out_row(table: Table, settings: Settings, rows: Rows, i: int, start: U32, x: F64) -> int:
    """Write the starts of the lines of row i and its values, if there is such a row; return the number of slots.

    Source    lay_out
    """
    if i + 1 >= len(rows.indptr):
        return 0
    width = width_of(settings)
    return lay_out(rows, i, (settings.shift, width, (len(table.line) - 1) * width), start, x)


@inline_kernel
def prefetch_as_gathered(table: Table, settings: Settings, rows: Rows, place: tuple[int, int]) -> None:
    """Prefetch for a row some features after feature p of a row of k slots. place: p, k.

    For a short row this prefetches half. `add_squares` and `write_row` prefetch a quarter each; if the rate is not adaptive,
    `write_row` prefetches the other half. A processor has a limited number of outstanding memory requests and stalls at the next
    one, so they are spread over all of the work.

    Source    this package's measurements
    """
    p, k = place
    prefetch_half_later(table.line, rows, p, settings.shift, width_of(settings))
    if k > SPREAD_MAX:
        prefetch_half_later(table.line, rows, p + HALF, settings.shift, width_of(settings))
    prefetch(rows.value, p + 2 * AHEAD)  # the hardware prefetcher does not detect that rows are read in order


@inline_kernel
def gather_row(table: Table, settings: Settings, rows: Rows, place: tuple[int, int], scratch: Scratch) -> Gathered:
    """Read the weights of a row as of now; increase the scales to its values.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    rows : Rows            read only
    place                  i, k: the row, and its number of slots, which `scratch` has with their values
    scratch : Scratch      overwritten, except for start, centre, span, entry and, unless normalised, x

    Returns                whether one of the slots may have to be listed; the calibrated margin, products added in the order of
                           the hashes; sum of (x / scale)^2 if normalised, of x^2 without the adaptive rate, and then a bound on
                           every number computed; what the intercept gets for weights that were lost as scales grew
    Cost                   one random read for each feature, prefetched some rows ahead
    Source                 this module
    """
    s = scratch
    clock = clock_of(table)
    gain = table.scalars[GAIN]
    margin = intercept = gain * table.scalars[INTERCEPT] + table.scalars[OFFSET]
    length, lost = 0.0, 0.0
    bound = spread(0.0)
    fresh = spread(0.0)
    i, k = place
    first = rows.indptr[i]
    for j in range(0, k, WIDTH):
        prefetch_as_gathered(table, settings, rows, (first + j, k))
        x = load(s.x, j)
        scale = spread(1.0)
        unit = scale
        if settings.adaptive is not None:
            beta, tau, squares, unit = read_four(table.line, s.start, j)
            store(s.squares, j, squares)
            if settings.normalised is not None:
                scale = unit
                unit = inverse_roots(squares, scale, settings.accumulator)
            # A sum of squares or a scale never becomes zero again.
            fresh = fresh + where((scale if settings.normalised is not None else squares) == 0.0, size(x), 0.0)
        else:
            beta, tau = read_two(table.line, s.start, j)
        fresh = fresh + where(beta == 0.0, size(x), 0.0)
        gap = clock - tau
        if settings.one_by_one:
            beta = weights_one_by_one(beta, gap, scale, j, settings, scratch)
        else:
            beta = weights_now(beta, gap, unit, scale, settings)
        store(s.plain, j, gain * beta)
        margin = add_up(margin, gain * beta * x)
        if settings.normalised is not None:
            beta, x, part = stretch(beta, scale, j, settings, scratch)
            length = add_up(length, x * x)
            lost = add_up(lost, part)
        store(s.beta, j, beta)
        if settings.adaptive is None:
            bound = bound + (size(beta) + size(x))
            if settings.invariant:
                length = add_up(length, x * x)
    total = add_up(0.0, bound)
    if settings.adaptive is None and not settings.invariant and not total < SAFE:
        length = squared_length(s.x, k)
    if k < rows.indptr[i + 1] - first:
        margin = add_products(rows, i, settings.shift, width_of(settings), k, s.start, s.x, s.plain, intercept)
    return flags(fresh > 0.0) != 0, margin, length, total, lost


@inline_kernel
def settle(moved: Lanes, j: int, settings: Settings, scratch: Scratch) -> Lanes:
    """Apply the row's own event and the grid to the eight weights from j on, under the rare rules.

    Source    Langford, Li & Zhang 2009, equation 5
    """
    s = scratch
    store(s.plain, j, moved)
    for feature in range(j, j + WIDTH):
        old = s.beta[feature]
        beta = s.plain[feature]
        if settings.rule == SUBGRADIENT and old != 0.0:
            # Equation 5 takes the sign before the step, so this row's own event cannot be deferred.
            beta -= math.copysign(shrink_unit(s.squares[feature], 1.0, settings), old)
        s.plain[feature] = on_grid(beta) if settings.grid else beta
    return load(s.plain, j)


@inline_kernel
def list_new(table: Table, settings: Settings, j: int, beta: Lanes, scratch: Scratch) -> None:
    """List those of the eight slots from j on that get their first weight or accumulator by this row; the table is still as it
    was before the row. A weight that truncation has made zero since it was written is in the list.

    Source    this module
    """
    s = scratch
    width = width_of(settings)
    if settings.adaptive is not None:
        old, _, squares, scale = read_four(table.line, s.start, j)
        unmet, met = (scale, load(s.scale, j)) if settings.normalised is not None else (squares, load(s.squares, j))
        found = flags((unmet == 0.0) & (met != 0.0))
        table.counts[N_SEEN] = write_down(table.seen, table.counts[N_SEEN], found, s.start, j, width)
    else:
        old, _ = read_two(table.line, s.start, j)
    found = flags((old == 0.0) & (beta != 0.0))
    table.counts[N_ALIVE] = write_down(table.alive, table.counts[N_ALIVE], found, s.start, j, width)


@inline_kernel
def write_row(
    table: Table, settings: Settings, rows: Rows, i: int, move: float, met: tuple[float, int, bool], scratch: Scratch
) -> None:
    """Write the k gathered features back, each moved by move * step, and list new ones.

    Parameters
    ----------
    table : Table          overwritten
    settings : Settings    the configuration
    rows, i                which row
    move : float           the common factor of the row
    met                    clock, k, fresh: the clock before the row; number of gathered slots; whether one of them may have to
                           be listed, which is rare once the features have been seen
    scratch : Scratch      plain is overwritten

    Returns                nothing
    Cost                   one write for each feature, to lines that gather_row has just read
    Source                 Langford, Li & Zhang 2009, equations 5 and 6
    """
    s = scratch
    clock, k, fresh = met
    tau = spread(clock + 1.0 if settings.rule == SUBGRADIENT else clock)
    first = rows.indptr[i]
    for j in range(0, k, WIDTH):
        if k <= SPREAD_MAX:
            if settings.adaptive is None:
                prefetch_half_later(table.line, rows, first + j + HALF, settings.shift, width_of(settings))
            else:
                prefetch_quarter_later(table.line, rows, first + j + HALF + QUARTER, settings.shift, width_of(settings))
        beta = load(s.beta, j) + move * load(s.step if settings.adaptive is not None else s.x, j)
        if settings.one_by_one:
            beta = settle(beta, j, settings, scratch)
        beta = beta + 0.0  # turns -0.0 into +0.0, the zero of a weight that is absent from a checkpoint
        if fresh:
            list_new(table, settings, j, beta, scratch)
        if settings.adaptive is not None:
            last = where(load(s.centre, j) == 0.0, tau, NEVER) if settings.centred else tau
            write_four(table.line, s.start, j, (beta, last, load(s.squares, j), load(s.scale, j)))
        else:
            write_two(table.line, s.start, j, (beta, tau))


@inline_kernel
def weights_at(table: Table, settings: Settings, clock: float, start: U32) -> tuple[Lanes, Lanes]:
    """The weights of eight lines as they were written, and as of a given clock, under the common rule.

    Source    weights_now
    """
    scale = spread(1.0)
    unit = scale
    if settings.adaptive is not None:
        beta, tau, squares, unit = read_four(table.line, start, 0)
        if settings.normalised is not None:
            scale = unit
            unit = inverse_roots(squares, scale, settings.accumulator)
    else:
        beta, tau = read_two(table.line, start, 0)
    return beta, weights_now(beta, clock - tau, unit, scale, settings)


@kernel
def collect(table: Table, settings: Settings, clock: float, forget: bool, listed: U32, slot: U32, beta: F64) -> int:
    """Collect the non-zero weights of the slots of a sorted list.

    Parameters
    ----------
    table : Table          read only, except for `forget`
    settings : Settings    the configuration
    clock : float          the clock to evaluate them at
    forget : bool          whether to write a zero if truncation has made the weight zero, which changes no later result. It is
                           required before a slot is removed from the list: a line with a weight is assumed to be listed
    listed : u32[m]        non-decreasing; may be `slot` itself
    slot : u32[m]          overwritten with the slots kept, each once
    beta : f64[m]          overwritten with their weights

    Returns                how many were kept
    Cost                   O(m), eight at once under the common rule
    Source                 weight_now
    """
    kept = 0
    width = width_of(settings)
    whole = 0 if settings.one_by_one else max(len(listed) - 1, 0) // WIDTH * WIDTH  # each of these has a successor
    start, left = np.empty(WIDTH, np.uint32), np.empty(WIDTH)
    for p in range(0, whole, WIDTH):
        if p + AHEAD + WIDTH <= len(listed):
            for lane in range(WIDTH):
                prefetch(table.line, int(listed[p + AHEAD + lane]))
        new = starts_of(listed, p, width, start, 0)
        written, weights = weights_at(table, settings, clock, start)
        dead = flags(weights == 0.0)
        if forget and dead:
            store(left, 0, where(weights == 0.0, 0.0, written))
            for lane in range(WIDTH):
                table.line[start[lane] // np.uint32(width), BETA] = left[lane]
        kept = keep_some(listed, p, weights, new & ~dead, slot, beta, kept)
    for p in range(whole, len(listed)):
        at = listed[p]
        squares = table.line[at, SQUARES] if settings.adaptive is not None else 0.0
        scale = table.line[at, SCALE] if settings.normalised is not None else 1.0
        one = weight_now(table.line[at, BETA], clock - table.line[at, TAU], squares, scale, settings)
        again = p + 1 < len(listed) and listed[p + 1] == at
        slot[kept] = at
        beta[kept] = one
        kept += int(one != 0.0) & int(not again)
        if forget and one == 0.0:
            table.line[at, BETA] = 0.0
    return kept
