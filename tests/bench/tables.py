"""UCI tables as sparse rows for experiments over several passes, with columns of noise added on request.

Numbers are scaled to [0, 1] by the column's least and largest value (spambase: log(1 + x), as in earlier studies of it),
categories become one indicator each, a missing value is an absent feature. Nothing here looks at labels.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.wire.batch import Batch
from tests.bench.streams import open_lines

HASH_BITS: Final = 32
MISSING: Final = frozenset({"", "?"})
HOUSING_MEDIAN: Final = 21.2  # thousands of dollars; the median of MEDV splits the set into two halves


@dataclass(frozen=True, slots=True)
class Source:
    """The position of a table's label, its positive values, and the columns to ignore."""

    label: str
    positive: str
    drop: tuple[str, ...] = ()


SOURCES: Final[dict[str, Source]] = {
    "internet_ads": Source("class", "ad."),
    "crx": Source("class", "+"),
    "housing": Source("MEDV", ""),
    "krvskp": Source("class", "won"),
    "magic04": Source("class", "g"),
    "mushroom": Source("class", "p"),
    "spambase": Source("spam", "1"),
    "wbc": Source("class", "4", ("id",)),
    "wdbc": Source("diagnosis", "M", ("id",)),
    "wpbc": Source("outcome", "R", ("id",)),
    "zoo": Source("type", "mammal"),
}


@dataclass(frozen=True, slots=True)
class Table:
    """n rows over `width` columns: indptr i64[n + 1], column i64[nnz] increasing in a row, value f64[nnz], label f64[n]."""

    name: str
    indptr: I64
    column: I64
    value: F64
    label: F64
    width: int

    @property
    def rows(self) -> int:
        """Number of examples."""
        return len(self.label)

    @property
    def bits(self) -> int:
        """Smallest size of weight table in which every column has a separate slot."""
        return max(1, (self.width - 1).bit_length())

    def batch(self, order: I64) -> Batch:
        """The rows of `order`, in that order, with column c in slot c of a table of `bits`."""
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        entry = np.repeat(self.indptr[order] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Batch(
            indptr=indptr,
            hash=(self.column[entry] << (HASH_BITS - self.bits)).astype(np.uint32),
            value=self.value[entry],
            label=self.label[order],
            weight=np.ones(len(order)),
            event_id=np.zeros((len(order), 16), dtype=np.uint8),
            has_id=np.zeros(len(order), dtype=np.bool_),
        )

    def margins(self, beta: F64, intercept: float, rows: I64) -> F64:
        """Margins of some rows under dense weights, f64[len(rows)]."""
        products = beta[self.column] * self.value
        sums = np.concatenate(([0.0], np.cumsum(products)))
        return np.asarray(intercept + (sums[self.indptr[1:]] - sums[self.indptr[:-1]])[rows])


def read_table(name: str) -> Table:
    """Read one table of SOURCES from the shared data."""
    source = SOURCES[name]
    head, *rows = csv.reader(open_lines(f"uci_{name}.csv.gz"))
    head = [cell.strip() for cell in head]
    at = head.index(source.label)
    kept = [j for j, cell in enumerate(head) if j != at and cell not in source.drop]
    columns = [_encode([row[j].strip() for row in rows], name == "spambase") for j in kept]
    blocks = np.concatenate(columns, axis=1)
    labels = [row[at].strip() for row in rows]
    if name == "housing":
        label = np.array([float(cell) > HOUSING_MEDIAN for cell in labels], dtype=np.float64)
    else:
        label = np.array([cell == source.positive for cell in labels], dtype=np.float64)
    return _sparse(name, blocks, label)


def _encode(cells: list[str], logarithm: bool) -> F64:
    """One column of text as f64[n, 1] in [0, 1], or as one indicator a category."""
    present = [cell for cell in cells if cell not in MISSING]
    try:
        numbers = np.array([float(cell) for cell in present])
    except ValueError:
        names = sorted(set(present))
        return np.array([[float(cell == name) for name in names] for cell in cells])
    low, high = float(numbers.min()), float(numbers.max())
    scaled = np.log1p(numbers) if logarithm else (numbers - low) / (high - low or 1.0)
    column = np.zeros((len(cells), 1))
    column[[i for i, cell in enumerate(cells) if cell not in MISSING], 0] = scaled
    return column


def _sparse(name: str, dense: F64, label: F64) -> Table:
    row, column = np.nonzero(dense)
    indptr = np.searchsorted(row, np.arange(len(label) + 1)).astype(np.int64)
    return Table(name, indptr, column.astype(np.int64), dense[row, column], label, dense.shape[1])


def with_noise(table: Table, columns: int, probability: float, seed: int) -> Table:
    """`table` with that many more columns, each 1 with the given probability and 0 otherwise, independent of everything."""
    dense = np.zeros((table.rows, table.width + columns))
    dense[np.repeat(np.arange(table.rows), np.diff(table.indptr)), table.column] = table.value
    dense[:, table.width :] = np.random.default_rng(seed).random((table.rows, columns)) < probability
    return _sparse(f"{table.name} + {columns} random", dense, table.label)
