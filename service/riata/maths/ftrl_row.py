"""One row of FTRL-Proximal between the table and the scratch columns.

The table has one line of two float64 for each slot: z, and the sum of squared gradients. A weight follows from them, so
none is stored: a slot whose |z| is at most l1 has weight zero, and no row that does not hold it ever changes it. The
arithmetic goes over the columns of a `Scratch`, one short loop after another without a branch in it, so that the compiler
can take several features at once; divisions are `np.divide`, since Python's own looks for a zero each time. Only
`write_row` writes, and it is called only when every number it would write is finite, so a refused row leaves no trace.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.prefetch import AHEAD, prefetch
from riata.maths.rows import Rows, add_products

Z: Final = 0  # columns of the table
SQUARES: Final = 1

INTERCEPT_Z: Final = 0  # entries of FtrlTable.scalars
INTERCEPT_SQUARES: Final = 1
SCALARS: Final = 2

LEARNT: Final = 0  # entries of FtrlTable.counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
COUNTS: Final = 3


class Settings(NamedTuple):
    """The configuration as the kernels want it. McMahan's beta, a name that is taken by the weights, is `smoothing`."""

    alpha: float
    smoothing: float
    damping: float  # beta + alpha l2
    l1: float
    intercept: bool
    shift: int  # slot = hash >> shift


class FtrlTable(NamedTuple):
    """The state. alive lists every slot whose weight may be non-zero, seen every slot that ever had a gradient.

    numba tells named tuples apart by their names and fields, not by their modules: of two alike the one that is met second is
    looked up anew at every call, for a third of a millisecond. So no two are alike.
    """

    line: F64
    alive: U32
    seen: U32
    counts: I64
    scalars: F64


class Scratch(NamedTuple):
    """Room for one row, a column for each: slot; value, later gradient; z; sum of squared gradients; its root; weight."""

    slot: U32
    x: F64
    z: F64
    squares: F64
    root: F64
    beta: F64


@inline_kernel
def weight_of(z: float, root: float, l1: float, damping: float, alpha: float) -> float:
    """The weight that z and the root of the sum of squared gradients stand for. Never -0.0: zeros are not served.

    Source    McMahan et al. 2013, algorithm 1, with numerator and denominator times alpha, which saves a division
    """
    rest = abs(z) - l1
    size = np.divide(alpha * (rest if rest > 0.0 else 0.0), damping + root)
    return math.copysign(size, -z) + 0.0


@inline_kernel
def gradient_of(pull: float, x: float) -> tuple[float, float]:
    """The gradient of a feature of value x, and its square. One so small that its square underflows counts as none: wherever
    z is not zero, the sum of squares is not either.

    Source    McMahan et al. 2013, algorithm 1
    """
    gradient = pull * x
    square = gradient * gradient
    return (gradient if square > 0.0 else 0.0), square


@inline_kernel
def z_after(z: float, gradient: float, grown: float, beta: float, alpha: float) -> float:
    """z after a gradient that makes the root of the sum of squares grow by `grown`; sigma in the paper is grown / alpha.

    Source    McMahan et al. 2013, algorithm 1: z + g - sigma w
    """
    return float(z + (gradient - np.divide(grown, alpha) * beta))


@kernel
def intercept_of(scalars: F64, settings: Settings) -> float:
    """The weight of the intercept, which no penalty pulls at.

    Parameters
    ----------
    scalars : f64[2]       its z and sum of squared gradients; read only
    settings : Settings    the configuration

    Returns                the weight; 0 where no intercept is learnt
    Cost                   one root and one division
    Source                 weight_of
    """
    return weight_of(scalars[INTERCEPT_Z], math.sqrt(scalars[INTERCEPT_SQUARES]), 0.0, settings.smoothing, settings.alpha)


@inline_kernel
def gather_row(table: FtrlTable, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[int, float]:
    """Look up row i: its slots, values and weights.

    Parameters
    ----------
    table : FtrlTable          read only
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      overwritten

    Returns                number of slots, and the margin: intercept, then each product in the order of the hashes
    Cost                   one random read for each feature, asked for some rows ahead; one root and one division
    Source                 this module
    """
    s = scratch
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
            s.z[k] = table.line[slot, Z]
            s.squares[k] = table.line[slot, SQUARES]
            k += 1
    l1, damping, alpha = settings.l1, settings.damping, settings.alpha
    for j in range(k):
        s.root[j] = math.sqrt(s.squares[j])
        s.beta[j] = weight_of(s.z[j], s.root[j], l1, damping, alpha)
    return k, add_products(rows, i, settings.shift, 1, k, s.slot, s.x, s.beta, intercept_of(table.scalars, settings))


@inline_kernel
def move_row(settings: Settings, pull: float, k: int, scratch: Scratch) -> float:
    """Work out z and the sum of squares of the k gathered features after the row.

    Parameters
    ----------
    settings : Settings    the configuration
    pull : float           importance times the slope of the loss: the gradient of a feature of value 1
    k : int                number of gathered slots
    scratch : Scratch      x, z and squares are overwritten

    Returns                the sum of |z|, finite only if every new number is: a sum of squares that overflows takes z with it,
                           and no weight is larger than alpha times the rows learnt
    Cost                   one root and one division for each feature, several at once
    Source                 McMahan et al. 2013, algorithm 1
    """
    s = scratch
    alpha = settings.alpha
    for j in range(k):
        gradient, square = gradient_of(pull, s.x[j])
        s.x[j] = gradient
        s.squares[j] += square
    for j in range(k):
        s.z[j] = z_after(s.z[j], s.x[j], math.sqrt(s.squares[j]) - s.root[j], s.beta[j], alpha)
    bound = 0.0
    for j in range(k):
        bound += abs(s.z[j])
    return bound


@inline_kernel
def write_row(table: FtrlTable, settings: Settings, k: int, scratch: Scratch) -> None:
    """Write the k gathered features back, and list those that are new or have come alive.

    Parameters
    ----------
    table : FtrlTable          overwritten
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
    for j in range(k):
        slot = s.slot[j]
        # No machine can guess these: each slot is written down, and the next one may go over it.
        table.seen[seen] = slot
        table.alive[alive] = slot
        seen += int(table.line[slot, SQUARES] == 0.0) & int(s.squares[j] != 0.0)  # never to be zero again: listed once
        alive += int(s.beta[j] == 0.0) & int(abs(s.z[j]) > settings.l1)
        table.line[slot, Z] = s.z[j]
        table.line[slot, SQUARES] = s.squares[j]
    table.counts[N_ALIVE] = alive
    table.counts[N_SEEN] = seen
