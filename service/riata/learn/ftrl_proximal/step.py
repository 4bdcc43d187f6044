"""FTRL-Proximal over the rows of a batch, and the collection of its non-zero weights."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import BOOL, F64, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.jit.raw.unowned import borrow
from riata.jit.simd.f64x8 import WIDTH, flags, root
from riata.jit.simd.transpose import read_two, starts_of
from riata.learn.ftrl_proximal.row import (
    COLUMNS,
    INTERCEPT_SQUARES,
    INTERCEPT_Z,
    LEARNT,
    SQUARES,
    FtrlTable,
    Scratch,
    Settings,
    Z,
    gather_row,
    gradient_of,
    intercept_of,
    move_row,
    weight_of,
    weights_of,
    write_row,
    z_after,
)
from riata.learn.table_rows import Room, keep_some, prefetch_first
from riata.maths.losses import LOGISTIC, slope
from riata.maths.rows import ROWS_AHEAD, Rows, prefetch_row


@inline_kernel
def learn_row(table: FtrlTable, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[float, bool]:
    """Predict row i, then learn it.

    Parameters
    ----------
    table : FtrlTable          overwritten, unless the row is refused
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      overwritten

    Returns                margin before learning, and whether the row was learnt
    Cost                   O(features of the row)
    Source                 McMahan et al. 2013, algorithm 1
    """
    k, margin = gather_row(table, settings, rows, i, scratch)
    label = rows.label[i]
    learnt = not rows.skip[i] and math.isfinite(margin) and math.isfinite(label)
    if learnt:
        pull = rows.weight[i] * slope(LOGISTIC, margin, label)
        bound = move_row(settings, pull, k, scratch)
        z = table.scalars[INTERCEPT_Z]
        squares = table.scalars[INTERCEPT_SQUARES]
        if settings.intercept:
            gradient, square = gradient_of(pull, 1.0)
            grown = math.sqrt(squares + square) - math.sqrt(squares)
            z = z_after(z, gradient, grown, intercept_of(z, squares, settings), settings.alpha)
            squares += square
            bound += abs(z)
        learnt = math.isfinite(bound)
        if learnt:
            write_row(table, settings, k, scratch)
            table.scalars[INTERCEPT_Z] = z
            table.scalars[INTERCEPT_SQUARES] = squares
            table.counts[LEARNT] += 1
    return margin, learnt


@kernel
def learn_rows(table: FtrlTable, settings: Settings, rows: Rows, room: Room, margin: F64, refused: BOOL) -> None:
    """Predict and learn every row in order.

    Parameters
    ----------
    table : FtrlTable          overwritten; alive and seen must have space for every feature of the rows
    settings : Settings    the configuration
    rows : Rows            read only
    room : Room            for the longest row, in multiples of eight; overwritten
    margin : f64[n]        overwritten: margins before learning
    refused : bool[n]      overwritten: rows that were skipped or would have left the finite range

    Returns                nothing
    Cost                   O(features)
    Source                 learn_row
    """
    # With reference counts of some twenty arrays, each row would take twice as long.
    t, r = table, rows
    table = FtrlTable(borrow(t.line), borrow(t.alive), borrow(t.seen), borrow(t.counts), borrow(t.scalars))
    rows = Rows(borrow(r.indptr), borrow(r.hash), borrow(r.value), borrow(r.label), borrow(r.weight), borrow(r.skip))
    c = borrow(room.columns)
    scratch = Scratch(borrow(room.start)[0], c[0], c[1], c[2], c[3], c[4])
    prefetch_first(table.line, rows, settings.shift)
    for i in range(len(rows.indptr) - 1):
        prefetch_row(rows, i + ROWS_AHEAD)
        margin[i], learnt = learn_row(table, settings, rows, i, scratch)
        refused[i] = not learnt


@kernel
def collect(line: F64, settings: Settings, listed: U32, slot: U32, beta: F64) -> int:
    """Collect the non-zero weights of the slots of a sorted list.

    Parameters
    ----------
    line : f64[2^bits + 1, 2]  z and sums of squared gradients; read only
    settings : Settings    the configuration
    listed : u32[m]        non-decreasing; may be `slot` itself
    slot : u32[m]          overwritten with the slots kept, each once
    beta : f64[m]          overwritten with their weights

    Returns                how many were kept
    Cost                   O(m); one root and one division for each, eight at once
    Source                 weight_of
    """
    kept = 0
    whole = max(len(listed) - 1, 0) // WIDTH * WIDTH  # each of these has a successor
    start = np.empty(WIDTH, np.uint32)
    for p in range(0, whole, WIDTH):
        if p + AHEAD + WIDTH <= len(listed):
            for lane in range(WIDTH):
                prefetch(line, int(listed[p + AHEAD + lane]))
        new = starts_of(listed, p, COLUMNS, start, 0)
        z, squares = read_two(line, start, 0)
        weights = weights_of(z, root(squares), settings)
        new &= flags(weights != 0.0)
        kept = keep_some(listed, p, weights, new, slot, beta, kept)
    for p in range(whole, len(listed)):
        at = listed[p]
        slot[kept] = at
        beta[kept] = weight_of(line[at, Z], math.sqrt(line[at, SQUARES]), settings.l1, settings.damping, settings.alpha)
        again = p + 1 < len(listed) and listed[p + 1] == at
        kept += int(beta[kept] != 0.0) & int(not again)
    return kept
