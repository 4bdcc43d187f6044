"""One row of FTRL-Proximal between the table and the scratch columns.

The table has one line of two float64 for each slot: z, and the sum of squared gradients. A weight is a function of them, so none
is stored. A slot with |z| of at most l1 has weight zero, and only rows with the slot change it. Eight features are processed at
once, in `Lanes`. Only `write_row` writes, and it is called only if every number it would write is finite. So a refused row
changes nothing.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.f64x8 import WIDTH, Lanes, add_up, flags, load, root, size, spread, store, where
from riata.jit.simd.transpose import read_two, write_two
from riata.learn.table_rows import lay_out, prefetch_later, write_down
from riata.maths.rows import Rows, add_products

Z: Final = 0  # columns of the table
SQUARES: Final = 1
COLUMNS: Final = 2

INTERCEPT_Z: Final = 0  # entries of FtrlTable.scalars
INTERCEPT_SQUARES: Final = 1
SCALARS: Final = 2

LEARNT: Final = 0  # entries of FtrlTable.counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
COUNTS: Final = 3


class Settings(NamedTuple):
    """The configuration in the form that kernels take. McMahan's beta is `smoothing`, as beta is the name of the weights."""

    alpha: float
    smoothing: float
    damping: float  # beta + alpha l2
    l1: float
    intercept: bool
    shift: int  # slot = hash >> shift


class FtrlTable(NamedTuple):
    """The state. alive lists every slot whose weight may be non-zero, seen every slot that ever had a gradient.

    numba distinguishes named tuples by their names and fields, not by their modules. If two are alike, the one that is met second
    is looked up again at every call, for a third of a millisecond. So no two are alike.
    """

    line: F64
    alive: U32
    seen: U32
    counts: I64
    scalars: F64


class Scratch(NamedTuple):
    """Work space for one row, one column each, in multiples of eight: where the line of the slot starts; value; z; sum of squared
    gradients; its root before the row; weight."""

    start: U32
    x: F64
    z: F64
    squares: F64
    root: F64
    beta: F64


@inline_kernel
def weight_of(z: float, root: float, l1: float, damping: float, alpha: float) -> float:
    """The weight for z and the root of the sum of squared gradients. Never -0.0: zeros are not served.

    Source    McMahan et al. 2013, algorithm 1, with numerator and denominator times alpha, which saves a division
    """
    rest = abs(z) - l1
    size = np.divide(alpha * (rest if rest > 0.0 else 0.0), damping + root)
    return math.copysign(size, -z) + 0.0


@inline_kernel
def weights_of(z: Lanes, rooted: Lanes, settings: Settings) -> Lanes:
    """`weight_of` of eight features, to the last bit.

    Source    weight_of
    """
    rest = size(z) - settings.l1
    beta = settings.alpha * where(rest > 0.0, rest, 0.0) / (settings.damping + rooted)
    return where(z > 0.0, 0.0 - beta, beta) + 0.0


@inline_kernel
def gradient_of(pull: float, x: float) -> tuple[float, float]:
    """The gradient of a feature of value x, and its square. If the square underflows, the gradient counts as zero: so if z is not
    zero, neither is the sum of squares.

    Source    McMahan et al. 2013, algorithm 1
    """
    gradient = pull * x
    square = gradient * gradient
    return (gradient if square > 0.0 else 0.0), square


@inline_kernel
def z_after(z: float, gradient: float, grown: float, beta: float, alpha: float) -> float:
    """z after a gradient that increases the root of the sum of squares by `grown`; sigma in the paper is grown / alpha.

    Source    McMahan et al. 2013, algorithm 1: z + g - sigma w
    """
    return float(z + (gradient - np.divide(grown, alpha) * beta))


@kernel
def intercept_of(z: float, squares: float, settings: Settings) -> float:
    """The weight of the intercept, which has no penalty.

    Parameters
    ----------
    z, squares : float     its scalars of the table; passing an array would count a reference at each call
    settings : Settings    the configuration

    Returns                the weight; 0 if no intercept is learnt
    Cost                   one root and one division
    Source                 weight_of
    """
    return weight_of(z, math.sqrt(squares), 0.0, settings.smoothing, settings.alpha)


@inline_kernel
def gather_row(table: FtrlTable, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[int, float]:
    """Look up row i: its slots, values and weights.

    Parameters
    ----------
    table : FtrlTable      read only
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      overwritten

    Returns                number of slots, and the margin: intercept, then each product in the order of the hashes
    Cost                   one random read for each feature, prefetched some rows ahead; one root and one division, eight at once
    Source                 this module
    """
    s = scratch
    first = intercept_of(table.scalars[INTERCEPT_Z], table.scalars[INTERCEPT_SQUARES], settings)
    margin = first
    k = lay_out(rows, i, (settings.shift, COLUMNS, (len(table.line) - 1) * COLUMNS), s.start, s.x)
    for j in range(0, k, WIDTH):
        prefetch_later(table.line, rows, rows.indptr[i] + j, settings.shift, COLUMNS)
        z, squares = read_two(table.line, s.start, j)
        rooted = root(squares)
        beta = weights_of(z, rooted, settings)
        store(s.z, j, z)
        store(s.squares, j, squares)
        store(s.root, j, rooted)
        store(s.beta, j, beta)
        margin = add_up(margin, beta * load(s.x, j))
    if k < rows.indptr[i + 1] - rows.indptr[i]:
        margin = add_products(rows, i, settings.shift, COLUMNS, k, s.start, s.x, s.beta, first)
    return k, margin


@inline_kernel
def move_row(settings: Settings, pull: float, k: int, scratch: Scratch) -> float:
    """Compute z and the sum of squares of the k gathered features after the row.

    Parameters
    ----------
    settings : Settings    the configuration
    pull : float           importance times the slope of the loss: the gradient of a feature of value 1
    k : int                number of gathered slots
    scratch : Scratch      z and squares are overwritten

    Returns                the sum of |z|, finite only if every new number is: if a sum of squares overflows, so does z, and no
                           weight is larger than alpha times the rows learnt
    Cost                   one root and one division for each feature, eight at once
    Source                 McMahan et al. 2013, algorithm 1
    """
    s = scratch
    bound = spread(0.0)
    for j in range(0, k, WIDTH):
        gradient = pull * load(s.x, j)
        square = gradient * gradient
        gradient = where(square > 0.0, gradient, 0.0)
        squares = load(s.squares, j) + square
        grown = root(squares) - load(s.root, j)
        z = load(s.z, j) + (gradient - grown / settings.alpha * load(s.beta, j))
        store(s.squares, j, squares)
        store(s.z, j, z)
        bound = bound + size(z)
    return add_up(0.0, bound)


@inline_kernel
def write_row(table: FtrlTable, settings: Settings, k: int, scratch: Scratch) -> None:
    """Write the k gathered features back, and list those that are new or have become non-zero.

    Parameters
    ----------
    table : FtrlTable      overwritten
    settings : Settings    the configuration
    k : int                number of gathered slots
    scratch : Scratch      read only

    Returns                nothing
    Cost                   one write for each feature, to lines that gather_row has just read
    Source                 this module
    """
    s = scratch
    alive = table.counts[N_ALIVE]
    seen = table.counts[N_SEEN]
    for j in range(0, k, WIDTH):
        z, squares = load(s.z, j), load(s.squares, j)
        fresh = (load(s.root, j) == 0.0) & (squares != 0.0)  # never zero again: listed once
        seen = write_down(table.seen, seen, flags(fresh), s.start, j, COLUMNS)
        alive = write_down(table.alive, alive, flags((load(s.beta, j) == 0.0) & (size(z) > settings.l1)), s.start, j, COLUMNS)
        write_two(table.line, s.start, j, (z, squares))
    table.counts[N_ALIVE] = alive
    table.counts[N_SEEN] = seen
