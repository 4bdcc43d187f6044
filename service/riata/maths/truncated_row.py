"""One row of truncated gradient, in three passes: gather, rate, write.

The first gathers the weights as they are now and adds up the margin, in the order of the hashes. The second works out
rates and new accumulators into scratch arrays. Only the third writes, and it is called only when every number it would
write is finite, so a refused row leaves no trace.

The table has one line of float64 for each slot: weight, clock at last touch, and for the adaptive rate the sum of squared
gradients and the scale (largest |x| seen). Two hashes of a row that share a slot are neighbours, since slots are the top
bits of sorted hashes; their products enter the margin one by one and their values add up to one feature of the gradient.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from riata.base.arrays import BOOL, F64, I64, U32
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.prefetch import AHEAD, prefetch
from riata.maths.truncation import SUBGRADIENT, after_gap, on_grid

BETA: Final = 0  # columns of the table
TAU: Final = 1
SQUARES: Final = 2
SCALE: Final = 3

CLOCK: Final = 0  # entries of Table.scalars
CLOCK_LOST: Final = 1  # what rounding has kept out of CLOCK (Neumaier)
INTERCEPT: Final = 2
INTERCEPT_SQUARES: Final = 3
NORM: Final = 4  # sum over learnt rows of importance * sum_j (x_j / scale_j)^2
IMPORTANCE: Final = 5  # sum of the importance of the learnt rows
SCALARS: Final = 6

LEARNT: Final = 0  # entries of Table.counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
COUNTS: Final = 3


class Settings(NamedTuple):
    """The configuration as the kernels want it; the words behind the numbers are in `learn.truncated_gradient`."""

    loss: int
    rule: int
    adaptive: bool
    normalised: bool
    invariant: bool
    grid: bool
    intercept: bool
    counting: bool  # truncation events are all of one size, so the clock counts them
    eta: float
    power: float  # 0 for a step size that does not decay
    delay: float
    gravity: float
    period: int
    ceiling: float
    accumulator: float
    reach: float
    shift: int  # slot = hash >> shift


class Table(NamedTuple):
    """The state. alive lists every slot whose weight may be non-zero, seen every slot with an accumulator."""

    line: F64
    alive: U32
    seen: U32
    counts: I64
    scalars: F64


class Rows(NamedTuple):
    """The events, as in `wire.Batch`, and which of them to leave out."""

    indptr: I64
    hash: U32
    value: F64
    label: F64
    weight: F64
    skip: BOOL


class Scratch(NamedTuple):
    """Room for one row: slot, value, weight now, rate of the step, new sum of squares, new scale."""

    slot: I64
    x: F64
    beta: F64
    rate: F64
    squares: F64
    scale: F64


@inline_kernel
def inverse_root(squares: float, scale: float, settings: Settings) -> float:
    """What the adaptive rate divides by, inverted; 0 where there has been no gradient yet, 1 for the other rates.

    Source    Duchi, Hazan & Singer 2011; in units of the normalised feature x / scale, Ross, Mineiro & Langford 2013
    """
    if not settings.adaptive:
        return 1.0
    total = squares + settings.accumulator * scale * scale
    return 1.0 / math.sqrt(total) if total > 0.0 else 0.0


@inline_kernel
def shrink_unit(squares: float, scale: float, settings: Settings) -> float:
    """What one unit of the clock takes from a weight.

    Source    Langford, Li & Zhang 2009, equation 6, with the weight's own step size; a penalty on scale * |beta|
    """
    unit = inverse_root(squares, scale, settings)
    if settings.counting:
        events = 1 if settings.rule == SUBGRADIENT else settings.period
        unit = unit * (settings.eta * (settings.gravity * events))
        if settings.grid:
            unit = on_grid(unit)
    return unit


@inline_kernel
def weight_now(beta: float, gap: float, squares: float, scale: float, settings: Settings) -> float:
    """A weight with the truncation that is due for a gap of the clock; no array comes in, for that would cost a lock.

    Source    module `truncation`; the ceiling, like the penalty, is meant for scale * |beta|
    """
    now = beta
    if beta != 0.0 and gap > 0.0:
        now = after_gap(settings.rule, beta, shrink_unit(squares, scale, settings), gap, settings.ceiling / scale)
    return now


@inline_kernel
def gather_row(table: Table, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[int, float]:
    """Look up row i: its slots, values and weights as they are now.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      slot, x and beta are overwritten

    Returns                number of slots, and the margin: intercept, then each product in the order of the hashes
    Cost                   one random read for each feature, asked for some rows ahead
    Source                 this module
    """
    clock = table.scalars[CLOCK] + table.scalars[CLOCK_LOST]
    margin = table.scalars[INTERCEPT]
    last = len(rows.hash) - 1
    before = -1
    k = 0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        prefetch(table.line, int(rows.hash[min(p + AHEAD, last)]) >> settings.shift)
        slot = int(rows.hash[p]) >> settings.shift
        if slot == before:
            scratch.x[k - 1] += rows.value[p]
        else:
            before = slot
            squares = table.line[slot, SQUARES] if settings.adaptive else 0.0
            scale = table.line[slot, SCALE] if settings.normalised else 1.0
            scratch.slot[k] = slot
            scratch.x[k] = rows.value[p]
            scratch.beta[k] = weight_now(table.line[slot, BETA], clock - table.line[slot, TAU], squares, scale, settings)
            k += 1
        margin += scratch.beta[k - 1] * rows.value[p]
    return k, margin


@inline_kernel
def rate_row(
    table: Table, settings: Settings, gradient: float, importance: float, k: int, scratch: Scratch
) -> tuple[float, float, float]:
    """Work out the rates of the k gathered features and of the intercept, before the common factor of the row.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    gradient : float       derivative of the loss with respect to the margin
    importance : float     of the row
    k : int                number of gathered slots
    scratch : Scratch      rate, squares and scale are overwritten; beta is rescaled where a scale grows

    Returns                sum of rate * x^2, sum of (x / scale)^2 (both with the intercept), a bound on every number made
    Cost                   one square root and one division for each feature
    Source                 Ross, Mineiro & Langford 2013, algorithm 2 (NAG), with the margin taken before the rescaling
    """
    length = 0.0
    norm = 0.0
    bound = 0.0
    heat = importance * gradient * gradient
    if settings.intercept:
        length += inverse_root(table.scalars[INTERCEPT_SQUARES] + heat, 1.0, settings)
        norm += 1.0
    for j in range(k):
        x = scratch.x[j]
        scale = 1.0
        squares = 0.0
        rate = 1.0
        if settings.normalised:
            old = table.line[scratch.slot[j], SCALE]
            if old > 0.0 and abs(x) > settings.reach * old:
                x = math.copysign(settings.reach * old, x)
                scratch.x[j] = x
            scale = max(old, abs(x))
            if scale > old and old > 0.0:
                scratch.beta[j] = scratch.beta[j] * (old / scale)
        if settings.adaptive:
            squares = table.line[scratch.slot[j], SQUARES] + heat * x * x
            rate = inverse_root(squares, scale, settings)
            if scale > 0.0:
                rate = rate / scale
                norm += (x / scale) * (x / scale)
        scratch.rate[j] = rate
        scratch.squares[j] = squares
        scratch.scale[j] = scale
        length += rate * x * x
        bound += squares + abs(scratch.beta[j]) + abs(rate * x)
    return length, norm, bound


@inline_kernel
def write_row(table: Table, settings: Settings, move: float, k: int, scratch: Scratch) -> None:
    """Write the k gathered features back, each moved by move * rate * x.

    Parameters
    ----------
    table : Table          overwritten
    settings : Settings    the configuration
    move : float           the common factor of the row
    k : int                number of gathered slots
    scratch : Scratch      read only

    Returns                nothing
    Cost                   one write for each feature, to lines that gather_row has just read
    Source                 Langford, Li & Zhang 2009, equations 5 and 6
    """
    clock = table.scalars[CLOCK] + table.scalars[CLOCK_LOST]
    tau = clock + 1.0 if settings.rule == SUBGRADIENT else clock
    for j in range(k):
        slot = scratch.slot[j]
        old = scratch.beta[j]
        beta = old + move * (scratch.rate[j] * scratch.x[j])
        if settings.rule == SUBGRADIENT and old != 0.0:
            # Equation 5 takes the sign before the step, so this row's own event cannot be left for later.
            beta -= math.copysign(shrink_unit(scratch.squares[j], scratch.scale[j], settings), old)
        if settings.grid:
            beta = on_grid(beta)
        beta += 0.0  # turns -0.0 into +0.0, the zero that a weight absent from a checkpoint comes back as
        if old == 0.0 and beta != 0.0:
            table.alive[table.counts[N_ALIVE]] = slot
            table.counts[N_ALIVE] += 1
        if settings.adaptive:
            # A scale or a sum of squares never returns to zero, so each slot is listed once.
            fresh = table.line[slot, SCALE] == 0.0 if settings.normalised else table.line[slot, SQUARES] == 0.0
            if fresh and (scratch.scale[j] if settings.normalised else scratch.squares[j]) != 0.0:
                table.seen[table.counts[N_SEEN]] = slot
                table.counts[N_SEEN] += 1
            table.line[slot, SQUARES] = scratch.squares[j]
            if settings.normalised:
                table.line[slot, SCALE] = scratch.scale[j]
        table.line[slot, BETA] = beta
        table.line[slot, TAU] = tau


@kernel
def collect(table: Table, settings: Settings, clock: float, slot: U32, beta: F64) -> int:
    """Write down the non-zero weights of the slots of a sorted list.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    clock : float          the moment to evaluate them at
    slot : u32[m]          non-decreasing; overwritten with the slots kept, each once
    beta : f64[m]          overwritten with their weights

    Returns                how many were kept
    Cost                   O(m)
    Source                 weight_now
    """
    kept = 0
    last = -1
    for p in range(len(slot)):
        at = int(slot[p])
        if at == last:
            continue
        last = at
        squares = table.line[at, SQUARES] if settings.adaptive else 0.0
        scale = table.line[at, SCALE] if settings.normalised else 1.0
        now = weight_now(table.line[at, BETA], clock - table.line[at, TAU], squares, scale, settings)
        if now != 0.0:
            slot[kept] = at
            beta[kept] = now
            kept += 1
    return kept
