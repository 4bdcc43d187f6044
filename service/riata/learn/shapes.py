"""Shapes of numeric columns: what a value adds to a margin beside weight times value, and what a pair of values adds.

The values of a column are divided into intervals with about as many rows each. An interval has a number, which is added to the
margin of a row whose value is in it: so the column may have any shape, and not only that of a straight line. The interval of zero
has none, since absent features are zero. A pair of columns has a number for each pair of intervals; a row without one of the two
gets none.

Intervals and pairs are found in a sample of the rows (`find_columns`, `find_pairs`). The numbers are learnt by `learn.shaped`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I32, I64, U32, Arrays, read_only
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.frozen import check_numbers
from riata.native.library import core, struct
from riata.native.rows import features_of
from riata.wire.batch import Batch

COLUMNS_MAX: Final = 256  # SHAPED_MAX of shapes.h
PAIRS_MAX: Final = 32  # PAIRED_MAX
WHOLE_MAX: Final = 8  # of shapes.h
INTERVALS: Final = 16  # of a column
ROWS_MIN: Final = 10  # of the sample that have a column
ROWS_SHARE: Final = 0.02  # the same, of all of them
NUMERIC_SHARE: Final = 0.25  # of the features of the sample that are values of columns, or there are no shapes
DENSE_SHARE: Final = 0.2  # the same, of columns in half of the rows, if there are more than COLUMNS_MAX features
PAIRED: Final = 32  # columns among which pairs are sought: those that move margins most
PAIRS: Final = 16  # that are found at most
LABELS_MIN: Final = 50  # rows of each label, or no pairs are sought
EVIDENCE: Final = 15.0  # least score of a pair, but for the number of pairs

CELLS: Final = ("shape_column", "shape_edge", "shape_start", "shape_pair")
NUMBERS: Final = ("shape_value", "shape_intercept")
PARTS: Final = (*CELLS, *NUMBERS)


@frozen_dataclass(frozen=True, slots=True)
class Shapes:
    """Intervals of columns, and pairs of columns; and the numbers of their cells.

    column    : u32[c]      hashes of the columns, strictly increasing
    edge      : f64[e]      upper ends of the intervals of each column but the last, strictly increasing in each column
    start     : i64[c + 1]  where the edges of each column begin
    pair      : i64[p, 2]   pairs of columns, the first before the second; each once
    value     : f64[cells]  what the cells add to a margin: first those of the columns, one for each interval; then those of pairs
    intercept : what is added to every margin
    """

    column: U32
    edge: F64
    start: I64
    pair: I64
    value: F64
    intercept: float = 0.0
    zero: I64 = field(init=False, compare=False, repr=False)  # of each column, the interval of zero
    cell: I64 = field(init=False, compare=False, repr=False)  # the first cell of each column and pair, and how many there are
    native: Any = field(init=False, compare=False, repr=False)  # riata_shapes

    def __post_init__(self) -> None:
        intervals = np.diff(self.start) + 1
        across = np.where(intervals > WHOLE_MAX, (intervals + 1) // 2, intervals)
        sizes = np.concatenate([intervals, across[self.pair[:, 0]] * across[self.pair[:, 1]]])
        cell = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        object.__setattr__(self, "cell", cell)
        value = self.value if len(self.value) else np.zeros(int(cell[-1]))
        object.__setattr__(self, "value", read_only(np.ascontiguousarray(value, np.float64)))
        left, right = (np.ascontiguousarray(self.pair[:, side]) for side in (0, 1))
        inside = np.arange(INTERVALS) < intervals[:, np.newaxis] - 1
        edges = np.full(inside.shape, np.inf)
        edges[inside] = self.edge
        zero = np.count_nonzero(edges < 0.0, axis=1)
        object.__setattr__(self, "zero", zero)
        native = struct(
            "riata_shapes",
            column=self.column,
            edge=edges,
            intervals=intervals,
            zero=zero,
            cell=cell,
            left=left,
            right=right,
            value=self.value,
            columns=len(self.column),
            pairs=len(self.pair),
            intercept=self.intercept,
        )
        object.__setattr__(self, "native", native)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.cell[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.cell_nbytes + self.value.nbytes

    @property
    def cell_nbytes(self) -> int:
        """Bytes of those of `cell_parts`."""
        return sum(array.nbytes for array in (self.column, self.edge, self.start, self.pair))

    def edges_of(self, column: int) -> F64:
        """The edges of a column, by its number."""
        return self.edge[self.start[column] : self.start[column + 1]]

    def coarse_edges_of(self, column: int) -> F64:
        """The edges of a column as its pairs take them: where it has many intervals, two of them are one."""
        edges = self.edges_of(column)
        return edges[1::2] if len(edges) + 1 > WHOLE_MAX else edges

    def values_of(self, column: int) -> F64:
        """The numbers of the intervals of a column."""
        return self.value[self.cell[column] : self.cell[column + 1]]

    def values_of_pair(self, number: int) -> F64:
        """The numbers of a pair, by interval of its first column and of its second."""
        first, across = len(self.column) + number, len(self.coarse_edges_of(self.pair[number, 1])) + 1
        return self.value[self.cell[first] : self.cell[first + 1]].reshape(-1, across)

    def with_values(self, value: F64, intercept: float) -> Shapes:
        """The same cells with other numbers."""
        return replace(self, value=value, intercept=intercept)

    def cells_of(self, rows: Batch) -> I32:
        """The cell that each row has of each column and of each pair, -1 for none: i32[columns + pairs, n]."""
        table = np.empty((len(self.column) + len(self.pair), rows.n), np.int32)
        if not core.cells(self.native, *features_of(rows), table):
            raise ValueError("the rows of a batch are not inside of its features")
        return table

    def margins(self, rows: Batch) -> F64:
        """What is added to the margin of each row; sums are not taken in the order of predictions."""
        table = self.cells_of(rows)
        return np.asarray(self.intercept + np.where(table < 0, 0.0, self.value[table]).sum(axis=0), np.float64)

    def parts_of(self, row: Sequence[tuple[int, float]]) -> Iterator[tuple[tuple[int, int], ...]]:
        """The cells of a row in increasing order: number and interval of the column, or of the two columns.

        row : hash and value of each feature, by increasing hash
        """
        value = dict(row)
        interval = {
            c: int(np.searchsorted(self.edges_of(c), value[hash_]))
            for c, hash_ in enumerate(self.column.tolist())
            if hash_ in value
        }
        yield from (((c, at),) for c, at in interval.items() if at != self.zero[c])
        yield from (((a, interval[a]), (b, interval[b])) for a, b in self.pair.tolist() if a in interval and b in interval)

    def added(self, row: Sequence[tuple[int, float]]) -> list[float]:
        """What is added to the margin of a row, in order: `intercept`, and the number of each of its cells."""
        return [self.intercept, *(self.value_of(part) for part in self.parts_of(row))]

    def value_of(self, part: tuple[tuple[int, int], ...]) -> float:
        """The number of a cell that `parts_of` returned."""
        (c, at), *second = part
        if not second:
            return float(self.values_of(c)[at])
        other, beside = second[0]
        number = self.pair.tolist().index([c, other])
        return float(self.values_of_pair(number)[self._coarse(c, at), self._coarse(other, beside)])

    def range_of(self, column: int, interval: int, coarse: bool) -> tuple[float, float]:
        """The values of an interval: above the first number, and up to the second. coarse: as pairs take it."""
        edges = self.coarse_edges_of(column) if coarse else self.edges_of(column)
        at = self._coarse(column, interval) if coarse else interval
        bounds = [-math.inf, *edges.tolist(), math.inf]
        return bounds[at], bounds[at + 1]

    def _coarse(self, column: int, interval: int) -> int:
        return interval // 2 if len(self.edges_of(column)) + 1 > WHOLE_MAX else interval

    def document(self) -> dict[str, Any]:
        """What values add to a margin, as JSON, in the order in which it is added."""
        return {
            "intercept": self.intercept,
            "columns": [
                {"hash": hash_, "edges": self.edges_of(c).tolist(), "values": self.values_of(c).tolist()}
                for c, hash_ in enumerate(self.column.tolist())
            ],
            "pairs": [
                {
                    "hashes": self.column[pair].tolist(),
                    "edges": [self.coarse_edges_of(c).tolist() for c in pair],
                    "values": self.values_of_pair(number).tolist(),
                }
                for number, pair in enumerate(self.pair)
            ],
        }

    def parts(self) -> Arrays:
        """Copies of all arrays, by PARTS."""
        return {**self.cell_parts(), **dict(zip(NUMBERS, (np.array(self.value), np.array([self.intercept])), strict=True))}

    def cell_parts(self) -> Arrays:
        """Copies of the arrays without numbers, by CELLS."""
        arrays = (self.column, self.edge, self.start, self.pair.ravel())
        return {name: np.array(array) for name, array in zip(CELLS, arrays, strict=True)}


def read_shapes(arrays: Arrays) -> Shapes:
    """Return what `parts` wrote. Raises `Corrupt`."""
    shapes = read_cells(arrays)
    value, intercept = (arrays[name] for name in NUMBERS)
    check_numbers("shape_value", value, shapes.cells)
    check_numbers("shape_intercept", intercept, 1)
    return shapes.with_values(value.astype(np.float64), float(intercept.astype(np.float64)[0]))


def read_cells(arrays: Arrays) -> Shapes:
    """Return what `cell_parts` wrote, with zeros for numbers. Raises `Corrupt`."""
    column, edge, start, pair = (arrays[name] for name in CELLS)
    if column.dtype != np.uint32 or column.ndim != 1 or not 0 < len(column) <= COLUMNS_MAX:
        raise Corrupt("the columns with shapes are not a list of hashes")
    c = len(column)
    if bool((np.diff(column.astype(np.int64)) <= 0).any()):
        raise Corrupt("the columns with shapes are not in order")
    if start.dtype != np.int64 or start.shape != (c + 1,) or pair.dtype != np.int64 or pair.ndim != 1 or len(pair) % 2:
        raise Corrupt("the intervals of the columns are not lists of numbers")
    begins, pairs = start.astype(np.int64), pair.astype(np.int64).reshape(-1, 2)
    check_numbers("shape_edge", edge, len(edge))
    edges = edge.astype(np.float64)
    if begins[0] != 0 or begins[-1] != len(edges) or bool((np.diff(begins) < 0).any() or (np.diff(begins) >= INTERVALS).any()):
        raise Corrupt("the intervals of the columns do not follow one another")
    inside = np.ones(len(edges) + 1, np.bool_)
    inside[begins] = False  # the first edge of a column has none before it
    if bool((inside[1:-1] & (np.diff(edges) <= 0.0)).any()):
        raise Corrupt("the intervals of a column are not in order")
    if len(pairs) > PAIRS_MAX or bool((pairs < 0).any() or (pairs >= c).any() or (pairs[:, 0] >= pairs[:, 1]).any()):
        raise Corrupt("a pair is not of two columns")
    return Shapes(column.astype(np.uint32), edges, begins, pairs, np.zeros(0))


@frozen_dataclass(frozen=True, slots=True)
class Wanted:
    """Columns and pairs that have shapes, by hashes, as settings name them; None: those that are found.

    columns : with intervals, once they have several values
    pairs   : with numbers, once both columns occur; one may be an indicator, which has one interval
    """

    columns: frozenset[int] | None = None
    pairs: tuple[tuple[int, int], ...] | None = None

    @property
    def paired(self) -> frozenset[int]:
        """The columns of the pairs."""
        return frozenset(hash_ for pair in self.pairs or () for hash_ in pair)


FOUND: Final = Wanted()


def sorted_values(sample: Batch) -> tuple[U32, F64]:
    """Hashes and values of all features of a sample, by hash, and by value in each."""
    with np.errstate(invalid="ignore"):
        counts = sample.value.astype(np.uint16)  # as values of words are
    are_counts = bool((counts == sample.value).all())
    order = np.argsort(counts, kind="stable") if are_counts else np.argsort(sample.value)
    for half in (sample.hash, sample.hash >> 16):  # a radix sort, which numpy has for 16 bits
        order = order[np.argsort(half.astype(np.uint16)[order], kind="stable")]
    return sample.hash[order], sample.value[order]


def columns_of(sample: Batch, hash_: U32, value: F64, wanted: Wanted = FOUND) -> tuple[I64, I64]:
    """Where the values of each column that is wanted begin, and how many there are.

    hash_, value : the `sorted_values` of the sample
    """
    begins = np.flatnonzero(np.append(True, hash_[1:] != hash_[:-1])) if len(hash_) else np.zeros(0, np.int64)
    if not len(begins):
        return begins, begins
    count = np.diff(begins, append=len(hash_))
    several = value[begins] != value[begins + count - 1]
    if wanted.columns is None:
        chosen = _of_table(sample, several & (2 * np.add.reduceat(value != 1.0, begins) >= count), count)
    else:
        chosen = several & np.isin(hash_[begins], list(wanted.columns))
    columns = np.flatnonzero(chosen | np.isin(hash_[begins], list(wanted.paired)))[:COLUMNS_MAX]
    return begins[columns], count[columns]


def find_columns(sample: Batch, hash_: U32, value: F64, wanted: Wanted = FOUND) -> Shapes | None:
    """The intervals of the columns of the rows of a sample, those that are wanted; None for no column.

    hash_, value : the `sorted_values` of the sample
    """
    begins, count = columns_of(sample, hash_, value, wanted)
    if not len(begins):
        return None
    first, size = begins[:, np.newaxis], count[:, np.newaxis]
    edges = value[first + np.arange(1, INTERVALS) * size // INTERVALS]
    kept = (np.diff(edges, prepend=-np.inf) > 0.0) & (edges < value[first + size - 1])
    start = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
    return Shapes(hash_[begins], edges[kept], start, np.zeros((0, 2), np.int64), np.zeros(0))


def _of_table(sample: Batch, numbers: BOOL, count: I64) -> BOOL:
    """Which features are columns: numbers in ROWS_SHARE of the rows or more. None is, if the rows are no table.

    Rows are a table if there are few features, or much of the rows are dense columns: values of words are counts too, but of
    many words each is rare.

    numbers, count : which features have several values, most of them not 1; rows with each
    """
    columns: BOOL = numbers & (count >= max(ROWS_MIN, ROWS_SHARE * sample.n))
    of_columns, of_dense = (int(count[chosen].sum()) for chosen in (columns, columns & (2 * count >= sample.n)))
    few = len(count) <= COLUMNS_MAX or of_dense >= DENSE_SHARE * sample.nnz
    is_table = of_columns >= NUMERIC_SHARE * sample.nnz and few and np.count_nonzero(columns) <= COLUMNS_MAX
    return columns if is_table else np.zeros_like(columns)


def find_pairs(
    heads: Sequence[Shapes], sample: Batch, label: BOOL, probabilities: Callable[[], F64], known: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The pairs of columns, by their hashes, that an additive model misses: `known`, and those with the best evidence for one of
    the heads.

    heads         : of two classes one, of several classes one for each, which differ in their numbers
    label         : bool[heads, n]   of the rows of the sample, for each head
    probabilities : returns those under the additive model, f64[.., n] for each head and others; called if pairs are sought
    """
    positives, shapes = np.count_nonzero(label, axis=1), heads[0]
    tested = np.flatnonzero(np.minimum(positives, sample.n - positives) >= LABELS_MIN)
    if not len(tested) or len(known) >= PAIRS:
        return known
    probability = probabilities()
    ranges = np.array([max(np.ptp(head.values_of(c)) for head in heads) for c in range(len(shapes.column))])
    chosen = np.sort(np.argsort(-ranges, kind="stable")[:PAIRED])
    dense = _intervals(shapes, sample, chosen)
    k, n = dense.shape
    score, own = np.zeros((k, k)), np.zeros((k, k))
    for head in tested:
        core.pair_scores(dense, label[head] - probability[head], probability[head] * (1.0 - probability[head]), k, n, own)
        score = np.maximum(score, own)
    limit = EVIDENCE + 2.0 * np.log(max(1, len(tested) * k * (k - 1) // 2))
    hashes = shapes.column[chosen].tolist()
    here = _presence(shapes, sample)[chosen].astype(np.int64)
    likely = np.argwhere((score > limit) & (here @ here.T >= max(ROWS_MIN, ROWS_SHARE * n)))  # other rows have no cell of a pair
    found = sorted((-float(score[a, b]), hashes[a], hashes[b]) for a, b in likely.tolist())
    pairs = list(known)
    for _, a, b in found:
        if (a, b) not in pairs and len(pairs) < PAIRS:
            pairs.append((a, b))
    return pairs


def with_pairs(shapes: Shapes, pairs: Sequence[tuple[int, int]]) -> Shapes:
    """The same columns, with the pairs of hashes of which both are columns."""
    number = {hash_: at for at, hash_ in enumerate(shapes.column.tolist())}
    known = [sorted((number[a], number[b])) for a, b in pairs if a in number and b in number and a != b]
    pair = list(dict.fromkeys(map(tuple, known)))
    return replace(shapes, pair=np.array(pair[:PAIRS_MAX], np.int64).reshape(-1, 2), value=np.zeros(0))


def _presence(shapes: Shapes, sample: Batch) -> BOOL:
    """Which rows have each column: bool[c, n]."""
    row = np.repeat(np.arange(sample.n), np.diff(sample.indptr))
    at = np.minimum(np.searchsorted(shapes.column, sample.hash), len(shapes.column) - 1)
    has = shapes.column[at] == sample.hash
    found = np.zeros((len(shapes.column), sample.n), np.bool_)
    found[at[has], row[has]] = True
    return found


def _intervals(shapes: Shapes, sample: Batch, columns: I64) -> F64:
    """For each of these columns the number of the interval of each row, less the mean: f64[c, n]."""
    cell = shapes.cells_of(sample)[columns]
    dense = np.where(cell < 0, shapes.zero[columns, np.newaxis], cell - shapes.cell[columns, np.newaxis]).astype(np.float64)
    dense -= dense.sum(axis=1, keepdims=True) / sample.n  # sums of small integers are exact
    return dense
