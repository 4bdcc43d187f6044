"""Rows in memory by feature, for solvers that move one weight at a time.

They need 12 bytes for each feature value and 40 for each row, so solvers that hold all rows are refused beyond a bound
(`memory_bytes`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.base.errors import TooLarge
from riata.lab.batch.data import Data, native_rows
from riata.native.library import core, struct

_VALUE_BYTES: Final = 12
_ROW_BYTES: Final = 40
_FEATURE_BYTES: Final = 64


class Columns(NamedTuple):
    """The rows by feature.

    start  : i64[d + 1]   feature j is start[j] : start[j + 1]
    row    : u32[nnz]     increasing within a feature
    value  : f64[nnz]
    label  : f64[n]       -1 or 1
    weight : f64[n]       > 0
    """

    start: I64
    row: U32
    value: F64
    label: F64
    weight: F64


def native_columns(columns: Columns) -> Any:
    """Return a `riata_columns` of the columns."""
    return struct("riata_columns", n=len(columns.label), **columns._asdict())


def memory_bytes(data: Data) -> int:
    """What the columns take, and what a solver keeps for each row and feature beside them."""
    return _VALUE_BYTES * data.nnz + _ROW_BYTES * data.rows + _FEATURE_BYTES * data.features


def require_memory(name: str, need: int, most: int | None) -> None:
    """Raise `TooLarge` if a solver that holds the rows in memory needs more than `most` bytes."""
    if most is not None and need > most:
        raise TooLarge(
            f"{name} holds the rows in memory, which takes {need} bytes, and memory_bytes_max is {most}; use rmmp", "memory_bound"
        )


def columns_of(data: Data) -> Columns:
    """Read all rows, twice."""
    counts = np.zeros(data.features, np.int64)
    for part in data.parts:
        counts += np.bincount(part.load().rank, minlength=data.features)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    made = Columns(start, np.empty(data.nnz, np.uint32), np.empty(data.nnz), np.empty(data.rows), np.empty(data.rows))
    end, first = start[:-1].copy(), 0
    for part in data.parts:
        rows = part.load()
        core.fill_columns(native_rows(rows), first, end, made.row, made.value)
        after = first + len(rows.label)
        made.label[first:after], made.weight[first:after] = rows.label, rows.weight
        first = after
    return made
