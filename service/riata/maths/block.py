"""The arrays of a block: a quadratic in up to `cap` weights, and the rows that wait to be added to it.

`service/native/block.c` has the theory of operation. An owner that reads `cross`, or writes to any array of the block, flushes it
first (`core.block_flush`). A member whose numbers are all zero may be added at any time, by a larger SIZE.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.native.library import core, struct

ROWS: Final = 128  # rows that wait together

# Indices of Block.counts
SIZE: Final = 0  # members are at positions 0 .. SIZE - 1
PENDING: Final = 1  # waiting rows
MIRRORED: Final = 2  # 1 while the elements of `cross` below the diagonal equal those above it; affects only the time
HALT: Final = 3  # 1 once another thread does not want what is computed: solves leave early, and the block is thrown away
COUNTS: Final = 4

_LINE: Final = 8  # numbers in a cache line


class Block(NamedTuple):
    """Arrays of a block. In the units of the owner: G, D, H and h may all be divided by one common scale.

    beta, gradient, curvature : f64[cap]    weights; G; D without the prior
    peak                      : f64[cap]    largest x^2 seen
    gamma                     : f64[cap]    penalty factor: gamma_j in force is gamma[j] times the gamma of a solve
    cross                     : f64[cap, stride >= cap]  H for j < l, without the waiting rows; elements below the diagonal are
                                            valid only while MIRRORED is set; zero on it
    row_start                 : i64[ROWS + 1]  where each waiting row begins
    row_at, row_x             : u32, f64[ROWS * cap]  its positions and values
    row_h                     : f64[ROWS]   its h
    work                      : f64[...]    work space
    counts                    : i64[COUNTS] SIZE, PENDING, MIRRORED, HALT
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
    work: F64
    counts: I64


def zeros(*shape: int) -> F64:
    """A zeroed array aligned to a cache line: vectors that cross two cache lines cost a third of the speed."""
    count = int(np.prod(shape))
    spare = np.zeros(count + _LINE)
    start = -spare.ctypes.data // 8 % _LINE
    return spare[start : start + count].reshape(shape)


def stride_for(cap: int) -> int:
    """Length of the lines of a matrix with `cap` columns: an odd number of whole cache lines, so that elements of one column do
    not compete for the same cache sets."""
    return (-(-cap // _LINE) | 1) * _LINE


def new_block(cap: int) -> Block:
    """An empty block for up to `cap` members. Untouched memory costs nothing."""
    return Block(
        zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap, stride_for(cap)),
        np.zeros(ROWS + 1, np.int64), np.zeros(ROWS * cap, np.uint32), zeros(ROWS * cap), zeros(ROWS),
        zeros(core.block_room(cap)), np.zeros(COUNTS, np.int64),
    )  # fmt: skip


def block_struct(block: Block) -> Any:
    """The `riata_block` of these arrays."""
    return struct("riata_block", **block._asdict(), cap=len(block.beta), stride=block.cross.shape[1])


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
    return copy


def full_cross(block: Block) -> F64:
    """The cross curvature of a flushed block as a new symmetric f64[size, size] with a zero diagonal."""
    size = int(block.counts[SIZE])
    upper = np.triu(block.cross[:size, :size], 1)
    return np.asarray(upper + upper.T)
