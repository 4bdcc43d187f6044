"""States of ALGO_VERSION 2 and before: the gradients that lack the effect of earlier moves are brought up to date.

These versions solved while rows were pending, and updated the gradients of some members only (`tracked`). A gradient l of another
member lacks, over the pending rows i and the tracked members j,

    sum_i h_i x_il moved_i + sum_j H_lj (beta_j - settled_j)

    lazy_tracked    i64[n]        positions whose gradient is current; none if all are
    lazy_settled    f64[n]        their weights when all gradients were last current
    lazy_moved      f64[pending]  how far the margin of each pending row has moved since
    lazy_founded, lazy_flushed, lazy_reach   were used for bounds only, and are ignored
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_numbers
from riata.maths.block import PENDING, SIZE, Block

LAZY: Final = frozenset(f"lazy_{name}" for name in ("tracked", "settled", "founded", "moved", "flushed", "reach"))


def without_lazy(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return the arrays of the present format, and those that only older versions wrote: all of them or none."""
    if not set(arrays) >= LAZY:
        return arrays, {}
    return {name: array for name, array in arrays.items() if name not in LAZY}, {name: arrays[name] for name in LAZY}


def check_lazy(lazy: Arrays, size: int, rows: int) -> None:
    """Raise `Corrupt` unless the arrays fit a block of `size` positions with `rows` pending rows, or there are none."""
    if not lazy:
        return
    tracked = lazy["lazy_tracked"]
    n = len(tracked) if tracked.ndim == 1 else -1
    if tracked.dtype != np.int64 or n < 0 or len(np.unique(tracked)) < n:
        raise Corrupt("learner state: lazy_tracked is not a list of distinct positions")
    if n and not 0 <= int(tracked.min()) <= int(tracked.max()) < size:
        raise Corrupt("learner state: lazy_tracked has a position that is not in use")
    check_numbers("lazy_settled", lazy["lazy_settled"], n)
    check_numbers("lazy_moved", lazy["lazy_moved"], rows)


def settle(block: Block, lazy: Arrays) -> None:
    """Bring every gradient of a block up to date. Its other numbers and its pending rows are those of the state.

    No BLAS: a restore event carries such a state too, and its replay must have the same bits on every machine.
    """
    size, rows = int(block.counts[SIZE]), int(block.counts[PENDING])
    tracked = lazy["lazy_tracked"].astype(np.int64)
    if not 0 < len(tracked) < size:
        return
    lacking = np.zeros(size)
    for j, settled in zip(tracked.tolist(), lazy["lazy_settled"].tolist(), strict=True):
        step = float(block.beta[j]) - settled
        lacking[:j] += step * block.cross[:j, j]
        lacking[j + 1 :] += step * block.cross[j, j + 1 : size]
    for i in range(rows):
        at = block.row_at[block.row_start[i] : block.row_start[i + 1]]
        x = block.row_x[block.row_start[i] : block.row_start[i + 1]]
        lacking[at] += block.row_h[i] * float(lazy["lazy_moved"][i]) * x
    lacking[tracked] = 0.0
    block.gradient[:size] -= lacking
