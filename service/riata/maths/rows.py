"""The events of a batch in the form that kernels of learners take."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.jit.kernel import inline_kernel
from riata.jit.raw.address import array_at, held_by
from riata.jit.raw.prefetch import prefetch

ROWS_AHEAD: Final = 16  # two cache lines of an array with one number per row
COLUMNS: Final = 5  # of the arrays below all except the last, which are those of a batch
_POINTER_BYTES, _HASH_BYTES, _NUMBER_BYTES = 8, 4, 8


class Rows(NamedTuple):
    """The events, as in `wire.Batch`, and which of them to skip.

    Two hashes of a row that share a slot are adjacent, since slots are the top bits of sorted hashes.
    """

    indptr: I64
    hash: U32
    value: F64
    label: F64
    weight: F64
    skip: BOOL


@inline_kernel
def column_at(array_id: int, kind: Any, size: int) -> tuple[Any, bool]:
    """An array of one dimension by its `id`, and whether its elements have `size` bytes and are contiguous.

    Source    `jit.raw.address`, `held_by`
    """
    address, length, stride = held_by(array_id)
    return array_at(address, (length,), kind), length < 2 or stride == size


@inline_kernel
def rows_of(ids: I64, r: int, skip: BOOL, start: int) -> tuple[Rows, bool]:
    """The rows of one of several batches.

    Parameters
    ----------
    ids : i64[m, COLUMNS]  `id` of each array of each batch, in the order of Rows
    r : int                which batch
    skip : bool[n]         of the rows of all batches
    start : int            index of the batch's first row among them

    Returns                the rows, and whether kernels can read them: each array contiguous, of elements of its size
    Cost                   O(1)
    Source                 column_at
    """
    indptr, good = column_at(ids[r, 0], np.int64, _POINTER_BYTES)
    hashes, good_hashes = column_at(ids[r, 1], np.uint32, _HASH_BYTES)
    value, good_values = column_at(ids[r, 2], np.float64, _NUMBER_BYTES)
    label, good_labels = column_at(ids[r, 3], np.float64, _NUMBER_BYTES)
    weight, good_weights = column_at(ids[r, 4], np.float64, _NUMBER_BYTES)
    good = good and good_hashes and good_values and good_labels and good_weights
    return Rows(indptr, hashes, value, label, weight, skip[start : start + len(label)]), good


@inline_kernel
def prefetch_row(rows: Rows, i: int) -> None:
    """Prefetch the per-row numbers of row i. They are read in order, but the hardware prefetcher does not detect it: between two
    reads a row is learnt.

    Source    this package's measurements
    """
    prefetch(rows.indptr, i)
    prefetch(rows.label, i)
    prefetch(rows.weight, i)


@inline_kernel
def add_products(rows: Rows, i: int, shift: int, width: int, k: int, start: U32, x: F64, beta: F64, margin: float) -> float:
    """Add the products of row i to a margin, one by one in the order of the hashes, as a served model does.

    Parameters
    ----------
    rows : Rows            read only
    i : int                which row
    shift : int            slot = hash >> shift
    width : int            numbers in a line of the table
    k : int                number of slots that the row falls on
    k : int                number of slots of the row
    margin : float         what to add to

    Returns                the margin
    Cost                   O(features of the row)
    Source                 `predict`, which adds hash by hash and not slot by slot
    """
    first = rows.indptr[i]
    end = rows.indptr[i + 1]
    if k == end - first:
        for j in range(k):
            margin += beta[j] * x[j]
    else:
        j = 0
        for p in range(first, end):
            if (rows.hash[p] >> np.uint32(shift)) * np.uint32(width) != start[j]:
                j += 1
            margin += beta[j] * rows.value[p]
    return margin
