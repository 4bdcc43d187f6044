"""The arrays of a block: their meaning, how they are created, passed to kernels, and saved.

A kernel that learns many rows borrows them once (`lent`): with reference counts, passing them on would cost more than the work.
Even so, a call that is not inlined passes some 180 numbers, which takes as long as a solve of ten weights. So code that is called
for every row should be an inline kernel down to `add_row` and `solve`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays
from riata.jit.kernel import inline_kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.fma import TILE_COLUMNS, TILE_ROWS
from riata.maths.rank_update import GAP

ROWS: Final = 128  # rows that wait together
TRACKED_MAX: Final = 1024  # their cross curvature is held twice, at most 8 MiB

# Indices of Block.counts
SIZE: Final = 0  # members are at positions 0 .. SIZE - 1
PENDING: Final = 1  # waiting rows
TRACKED: Final = 2  # members whose gradient is current; 0 if all are
FOUNDED: Final = 3  # the first of them, which Lazy.reach includes
COPIED: Final = 4  # waiting rows that are in Lazy.x; derived
MIRRORED: Final = 5  # 1 while the elements of `cross` below the diagonal equal those above it; affects only the time
COUNTS: Final = 6

_LINE: Final = 8  # numbers in a cache line


class Lazy(NamedTuple):
    """State between two flushes of the members whose gradients are not current, and of those whose gradients are.

    tracked : i64[room]      positions whose gradient is current
    settled : f64[room]      their weights at the last moment when every gradient was current
    moved   : f64[ROWS]      how far the margin of each waiting row has moved since it was added, or since that moment
    flushed : f64[cap]       curvature without the waiting rows; never above the true one
    reach   : f64[cap]       root of the sum over the first FOUNDED tracked j of H_jl^2 / flushed_j

    Derived from the others and the block, work space, and never saved:

    place   : i64[cap]       index in `tracked` plus 1, or 0
    gram    : f64[room, lanes]  cross curvature of tracked members, waiting rows included up to
    upto    : i64[room]      how many waiting rows line a of `gram` includes; -1 if the line is absent
    x       : f64[ROWS, lanes]  waiting rows on the tracked members
    work    : f64[WORKS, lanes]
    panel_x, panel_hx : f64[...]  see `rank_update`
    """

    tracked: I64
    settled: F64
    moved: F64
    flushed: F64
    reach: F64
    place: I64
    gram: F64
    upto: I64
    x: F64
    work: F64
    panel_x: F64
    panel_hx: F64


# Lines of Lazy.work, by index in `tracked`
WEIGHT: Final = 0
PULL: Final = 1  # gradient
BEND: Final = 2  # total curvature
FINE: Final = 3  # penalty in force
STEP: Final = 4  # how far the weight has moved since it was gathered
WORKS: Final = 5


class Block(NamedTuple):
    """Arrays of a block. In the units of the owner: G, D, H and h may all be divided by one common scale.

    beta, gradient, curvature : f64[cap]    weights; G; D without the prior
    peak                      : f64[cap]    largest x^2 seen
    gamma                     : f64[cap]    penalty factor: gamma_j in force is gamma[j] times the gamma passed to `solve`
    cross                     : f64[cap, lanes >= cap]  H for j < l, without the waiting rows; elements below the diagonal are
                                            valid only while MIRRORED is set; zero on it
    row_start                 : i64[ROWS + 1]  where each waiting row begins
    row_at, row_x             : u32, f64[ROWS * cap]  its positions and values
    row_h                     : f64[ROWS]   its h
    counts                    : i64[COUNTS] SIZE, PENDING, and others that are `lazy`'s
    lazy                      : Lazy        with room 0 it is never used
    """

    beta: F64
    gradient: F64
    curvature: F64
    peak: F64
    gamma: F64
    cross: F64
    row_start: I64
    row_at: U32
    row_x: F64
    row_h: F64
    counts: I64
    lazy: Lazy


def zeros(*shape: int) -> F64:
    """A zeroed array aligned to a cache line: vectors that cross two cache lines cost a third of the speed."""
    count = int(np.prod(shape))
    spare = np.zeros(count + _LINE)
    start = -spare.ctypes.data // 8 % _LINE
    return spare[start : start + count].reshape(shape)


def lanes_for(cap: int) -> int:
    """Length of the lines of a matrix with `cap` columns: an odd number of whole cache lines, so that elements of one column do
    not compete for the same cache sets."""
    return (-(-cap // _LINE) | 1) * _LINE


def new_block(cap: int, tracked_max: int = TRACKED_MAX) -> Block:
    """An empty block for up to `cap` members, at most `tracked_max` of them tracked. Untouched memory costs nothing."""
    room = min(cap, tracked_max)
    lanes = lanes_for(room)
    lazy = Lazy(
        np.zeros(room, np.int64), zeros(room), zeros(ROWS), zeros(cap), zeros(cap),
        np.zeros(cap, np.int64), zeros(room, lanes), np.zeros(room, np.int64), zeros(ROWS, lanes), zeros(WORKS, lanes),
        zeros(-(-cap // TILE_COLUMNS) * (ROWS * TILE_COLUMNS + GAP)), zeros(-(-cap // TILE_ROWS) * (ROWS * TILE_ROWS + GAP)),
    )  # fmt: skip
    return Block(
        zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap, lanes_for(cap)),
        np.zeros(ROWS + 1, np.int64), np.zeros(ROWS * cap, np.uint32), zeros(ROWS * cap), zeros(ROWS),
        np.zeros(COUNTS, np.int64), lazy,
    )  # fmt: skip


def grown(block: Block, cap: int) -> Block:
    """A copy of `block` for up to `cap` members, `cap` >= its own capacity. It behaves like the original, to the last bit.
    With the same capacity it is a plain copy."""
    copy = new_block(cap)
    size, pending = int(block.counts[SIZE]), int(block.counts[PENDING])
    nnz = int(block.row_start[pending])
    for name in ("beta", "gradient", "curvature", "peak", "gamma"):
        getattr(copy, name)[:size] = getattr(block, name)[:size]
    copy.cross[:size, :size] = block.cross[:size, :size]
    copy.row_start[: pending + 1] = block.row_start[: pending + 1]
    copy.row_at[:nnz], copy.row_x[:nnz] = block.row_at[:nnz], block.row_x[:nnz]
    copy.row_h[:pending] = block.row_h[:pending]
    copy.counts[:] = block.counts
    thaw_lazy(copy, freeze_lazy(block))
    copy.counts[MIRRORED] = block.counts[MIRRORED]
    return copy


def full_cross(block: Block) -> F64:
    """The cross curvature of a flushed block as a new symmetric f64[size, size] with a zero diagonal."""
    size = int(block.counts[SIZE])
    upper = np.triu(block.cross[:size, :size], 1)
    return np.asarray(upper + upper.T)


def freeze_lazy(block: Block) -> Arrays:
    """Copies of the parts of `lazy` and `counts` that affect later results.

    tracked i64[n], settled f64[n], founded i64[1], moved f64[pending], flushed and reach f64[size]
    """
    size, pending, tracked = (int(block.counts[at]) for at in (SIZE, PENDING, TRACKED))
    lazy = block.lazy
    return {
        "tracked": lazy.tracked[:tracked].copy(),
        "settled": lazy.settled[:tracked].copy(),
        "founded": block.counts[FOUNDED : FOUNDED + 1].copy(),
        "moved": lazy.moved[:pending].copy(),
        "flushed": lazy.flushed[:size].copy(),
        "reach": lazy.reach[:size].copy(),
    }


def thaw_lazy(block: Block, arrays: Arrays) -> None:
    """Restore what `freeze_lazy` returned. SIZE, PENDING, the waiting rows and `cross` above the diagonal are already restored.
    The arrays fit them; `tracked` has distinct positions below SIZE, at most `cap` and at most TRACKED_MAX of them."""
    lazy, n = block.lazy, len(arrays["tracked"])
    lazy.tracked[:n], lazy.settled[:n] = arrays["tracked"], arrays["settled"]
    lazy.moved[: len(arrays["moved"])] = arrays["moved"]
    lazy.flushed[: len(arrays["flushed"])] = arrays["flushed"]
    lazy.reach[: len(arrays["reach"])] = arrays["reach"]
    lazy.place[:] = 0
    lazy.place[lazy.tracked[:n]] = np.arange(1, n + 1)
    lazy.upto[:n] = -1
    block.counts[TRACKED], block.counts[FOUNDED], block.counts[COPIED] = n, arrays["founded"][0], 0
    block.counts[MIRRORED] = 0


@inline_kernel
def lent(block: Block) -> Block:
    """The same block without reference counts (`borrow`). Source: this package's measurements."""
    b, z = block, block.lazy
    return Block(
        borrow(b.beta), borrow(b.gradient), borrow(b.curvature), borrow(b.peak), borrow(b.gamma), borrow(b.cross),
        borrow(b.row_start), borrow(b.row_at), borrow(b.row_x), borrow(b.row_h), borrow(b.counts),
        Lazy(
            borrow(z.tracked), borrow(z.settled), borrow(z.moved), borrow(z.flushed), borrow(z.reach),
            borrow(z.place), borrow(z.gram), borrow(z.upto), borrow(z.x), borrow(z.work), borrow(z.panel_x), borrow(z.panel_hx),
        ),
    )  # fmt: skip
