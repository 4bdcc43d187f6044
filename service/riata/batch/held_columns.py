"""Columns of the working set, held in memory: what coordinate ascent needs between two passes over all rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.batch.data import DataInMemory, Rows
from riata.jit.kernel import kernel


class Columns(NamedTuple):
    """Features by columns. The rows are those of all parts, in order.

    start  : i64[k + 1]   column j is start[j] : start[j + 1]
    row    : u32[nnz]     increasing within a column
    value  : f64[nnz]
    label  : f64[n]       -1 or 1
    weight : f64[n]       > 0
    """

    start: I64
    row: U32
    value: F64
    label: F64
    weight: F64


@kernel
def count_columns(rows: Rows, counts: I64) -> None:
    """Add the number of rows that have each feature.

    Parameters
    ----------
    rows : Rows       read only
    counts : i64[k]   overwritten

    Returns           nothing
    Cost              one read of the ranks
    Source            Gustavson 1978, Two fast algorithms for sparse matrices: the transpose
    """
    for e in range(len(rows.rank)):
        counts[rows.rank[e]] += 1


@kernel
def fill_columns(rows: Rows, first_row: int, cursor: I64, row: U32, value: F64) -> None:
    """Append rows to the columns.

    Parameters
    ----------
    rows : Rows         read only
    first_row : int     number of its first row
    cursor : i64[k]     overwritten: where each column goes on
    row : u32[nnz]      overwritten
    value : f64[nnz]    overwritten

    Returns             nothing
    Cost                one read of the features, and a write each
    Source              Gustavson 1978, Two fast algorithms for sparse matrices: the transpose
    """
    for i in range(len(rows.label)):
        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.rank[e]
            at = cursor[j]
            row[at], value[at] = first_row + i, rows.value[e]
            cursor[j] = at + 1


def columns_of(data: DataInMemory) -> Columns:
    """Rows by columns."""
    counts = np.zeros(data.features, np.int64)
    parts = [part.load() for part in data.parts]
    for rows in parts:
        count_columns(rows, counts)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    cursor, row, value = start[:-1].copy(), np.empty(data.nnz, np.uint32), np.empty(data.nnz)
    first = 0
    for rows in parts:
        fill_columns(rows, first, cursor, row, value)
        first += len(rows.label)
    return Columns(start, row, value, np.concatenate([one.label for one in parts]), np.concatenate([one.weight for one in parts]))
