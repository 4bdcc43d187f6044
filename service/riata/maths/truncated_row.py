"""One row of truncated gradient between the table and the scratch columns: gather, write back, and collect what is left.

The first gathers the weights as they are now and adds up the margin, in the order of the hashes. `truncated_rate` works
out what is new. Only the second writes, and it is called only when every number it would write is finite, so a refused
row leaves no trace.

The table has one line of float64 for each slot: weight, clock at last touch, and for the adaptive rate the sum of squared
gradients and the scale (largest |x| seen). Two hashes of a row that share a slot are neighbours, since slots are the top
bits of sorted hashes; their products enter the margin one by one and their values add up to one feature of the gradient.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.prefetch import AHEAD, prefetch
from riata.maths.rows import Rows, add_products
from riata.maths.truncated_rate import Scratch, Settings, catch_up, shrink_unit, weight_now
from riata.maths.truncation import SUBGRADIENT, on_grid

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


class Table(NamedTuple):
    """The state. alive lists every slot whose weight may be non-zero, seen every slot with an accumulator."""

    line: F64
    alive: U32
    seen: U32
    counts: I64
    scalars: F64


@inline_kernel
def gather_row(table: Table, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[int, float]:
    """Look up row i: its slots, values and weights as they are now.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      slot, x, beta, gap, squares and before are overwritten

    Returns                number of slots, and the margin: intercept, then each product in the order of the hashes
    Cost                   one random read for each feature, asked for some rows ahead
    Source                 this module
    """
    s = scratch
    clock = table.scalars[CLOCK] + table.scalars[CLOCK_LOST]
    shift = np.uint32(settings.shift)
    last = len(rows.hash) - 1
    first = rows.indptr[i]
    end = rows.indptr[i + 1]
    k = 0
    for p in range(first, end):
        prefetch(table.line, int(rows.hash[min(p + AHEAD, last)] >> shift))
        slot = rows.hash[p] >> shift
        if k > 0 and slot == s.slot[k - 1]:
            s.x[k - 1] += rows.value[p]
        else:
            s.slot[k] = slot
            s.x[k] = rows.value[p]
            s.beta[k] = table.line[slot, BETA]
            s.gap[k] = clock - table.line[slot, TAU]
            s.squares[k] = table.line[slot, SQUARES] if settings.adaptive else 0.0
            s.before[k] = table.line[slot, SCALE] if settings.normalised else 1.0
            k += 1
    catch_up(settings, k, scratch)
    return k, add_products(rows, i, settings.shift, k, s.slot, s.x, s.beta, table.scalars[INTERCEPT])


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
    s = scratch
    clock = table.scalars[CLOCK] + table.scalars[CLOCK_LOST]
    tau = clock + 1.0 if settings.rule == SUBGRADIENT else clock
    alive = table.counts[N_ALIVE]
    seen = table.counts[N_SEEN]
    for j in range(k):
        slot = s.slot[j]
        old = s.beta[j]
        beta = old + move * (s.rate[j] * s.x[j])
        if settings.rule == SUBGRADIENT and old != 0.0:
            # Equation 5 takes the sign before the step, so this row's own event cannot be left for later.
            beta -= math.copysign(shrink_unit(s.squares[j], s.scale[j], settings), old)
        if settings.grid:
            beta = on_grid(beta)
        beta += 0.0  # turns -0.0 into +0.0, the zero that a weight absent from a checkpoint comes back as
        if old == 0.0 and beta != 0.0:
            table.alive[alive] = slot
            alive += 1
        if settings.adaptive:
            # A scale or a sum of squares never returns to zero, so each slot is listed once.
            fresh = s.before[j] == 0.0 if settings.normalised else table.line[slot, SQUARES] == 0.0
            if fresh and (s.scale[j] if settings.normalised else s.squares[j]) != 0.0:
                table.seen[seen] = slot
                seen += 1
            table.line[slot, SQUARES] = s.squares[j]
            if settings.normalised:
                table.line[slot, SCALE] = s.scale[j]
        table.line[slot, BETA] = beta
        table.line[slot, TAU] = tau
    table.counts[N_ALIVE] = alive
    table.counts[N_SEEN] = seen


@kernel
def collect(table: Table, settings: Settings, clock: float, listed: U32, slot: U32, beta: F64) -> int:
    """Write down the non-zero weights of the slots of a sorted list.

    Parameters
    ----------
    table : Table          read only
    settings : Settings    the configuration
    clock : float          the moment to evaluate them at
    listed : u32[m]        non-decreasing; may be `slot` itself
    slot : u32[m]          overwritten with the slots kept, each once
    beta : f64[m]          overwritten with their weights

    Returns                how many were kept
    Cost                   O(m)
    Source                 weight_now
    """
    kept = 0
    last = len(listed) - 1
    for p in range(len(listed)):
        prefetch(table.line, int(listed[min(p + AHEAD, last)]))
        at = listed[p]
        squares = table.line[at, SQUARES] if settings.adaptive else 0.0
        scale = table.line[at, SCALE] if settings.normalised else 1.0
        now = weight_now(table.line[at, BETA], clock - table.line[at, TAU], squares, scale, settings)
        # No machine can guess which weights have died: each is written down, and the next one may go over it.
        again = p < last and listed[p + 1] == at
        slot[kept] = at
        beta[kept] = now
        kept += int(now != 0.0) & int(not again)
    return kept
