"""The rows that a batch solver passes over, cut into parts.

    data = in_memory(indptr, slot, value, label, weight, bits)
    for part in data.parts: rows = part.load()

Features are ranks 0 .. d-1 by decreasing frequency, so what the solvers keep for each feature is dense, and its hot end stays in
the cache. The intercept is not a feature. Parts are cut by position in the data and never by worker or file: sums over rows are
sums over parts, so the parts decide the bits of a solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from riata.base.arrays import F64, I32, I64, U32
from riata.native.library import core, struct

PART_ROWS: Final = 2**16


class Rows(NamedTuple):
    """Consecutive rows. The arrays are contiguous; nothing writes to them.

    indptr : i64[n + 1]   row i is indptr[i] : indptr[i + 1]; starts at 0
    rank   : u32[nnz]     features, each at most once in a row, in any order
    value  : f64[nnz]     finite
    label  : f64[n]       -1 or 1
    weight : f64[n]       > 0; importance, times the decay where older events count less
    """

    indptr: I64
    rank: U32
    value: F64
    label: F64
    weight: F64


class Part(Protocol):
    """PART_ROWS consecutive rows, the last part fewer."""

    def load(self) -> Rows:
        """The rows. May be called in any thread and any number of times, and always returns the same bits."""
        ...


def no_slots() -> U32:
    """A list of none."""
    return np.zeros(0, np.uint32)


class Data(Protocol):
    """What a solver is given.

    rows, nnz, features : of all parts
    slots               : u32[features]   the slot of each rank: hash >> (32 - bits)
    shared              : u32[s]   slots in which several feature hashes are added together, increasing
    """

    @property
    def rows(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def parts(self) -> Sequence[Part]: ...
    @property
    def slots(self) -> U32: ...
    @property
    def bits(self) -> int: ...
    @property
    def shared(self) -> U32: ...


@dataclass(frozen=True, slots=True)
class PartInMemory:
    """A part whose rows are held."""

    rows: Rows

    def load(self) -> Rows:
        """The rows themselves."""
        return self.rows


@dataclass(frozen=True, slots=True)
class DataInMemory:
    """Data whose rows are held; see `Data`."""

    rows: int
    nnz: int
    features: int
    parts: Sequence[Part]
    slots: U32
    bits: int
    shared: U32 = field(default_factory=no_slots)


def native_rows(rows: Rows) -> Any:
    """Return a `riata_ranked` of the rows."""
    return struct("riata_ranked", n=len(rows.label), **rows._asdict())


def sort_rows(indptr: I64, rank: U32, value: F64) -> I64:
    """Sort each row by rank and sum values of equal rank; return how many features remain of each.

    What remains of a row is at its beginning. See `riata_sort_rows`.
    """
    left, longest = np.empty(len(indptr) - 1, np.int64), int(np.diff(indptr).max(initial=0))
    core.sort_rows(indptr, len(left), rank, value, left, np.empty(2 * longest), np.empty(2 * longest, np.int64))
    return left


def keep_features(rows: Rows, chosen: I64, position: I32) -> Rows:
    """Return a copy of the features that have a position, their new rank, of the chosen rows; -1: no position.

    See `riata_keep_features`.
    """
    room = int((rows.indptr[chosen + 1] - rows.indptr[chosen]).sum()) + 1
    indptr, rank, value = np.empty(len(chosen) + 1, np.int64), np.empty(room, np.uint32), np.empty(room)
    nnz = core.keep_features(native_rows(rows), chosen, len(chosen), position, indptr, rank, value)
    return Rows(indptr, rank[:nnz].copy(), value[:nnz].copy(), rows.label[chosen], rows.weight[chosen])


def in_memory(indptr: I64, slot: U32, value: F64, label: F64, weight: F64, bits: int = 32) -> DataInMemory:
    """Rank the features, sum the values of slots that repeat in a row, and cut the rows into parts.

    indptr : i64[n + 1]   row i is indptr[i] : indptr[i + 1]
    slot   : u32[nnz]     any order; features that share a slot are one feature, whose value is the sum
    value  : f64[nnz]     finite
    label  : f64[n]       -1 or 1
    weight : f64[n]       > 0
    bits   : slots are hash >> (32 - bits)
    """
    slots, of_slot, counts = np.unique(slot, return_inverse=True, return_counts=True)
    by_count = np.argsort(-counts, kind="stable")
    rank_of = np.empty(len(slots), np.uint32)
    rank_of[by_count] = np.arange(len(slots), dtype=np.uint32)
    start = np.array(indptr, np.int64)
    rank, values = rank_of[of_slot], np.array(value, np.float64)
    left = sort_rows(start, rank, values)
    if int(left.sum()) < len(rank):
        inside = np.arange(len(rank)) - np.repeat(start[:-1], np.diff(start)) < np.repeat(left, np.diff(start))
        rank, values = rank[inside], values[inside]
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(left)])
    labels, weights = np.array(label, np.float64), np.array(weight, np.float64)
    parts = [
        PartInMemory(_cut(Rows(start, rank, values, labels, weights), first, min(first + PART_ROWS, len(labels))))
        for first in range(0, len(labels), PART_ROWS)
    ]
    return DataInMemory(len(labels), len(rank), len(slots), parts, slots[by_count].astype(np.uint32), bits)


def _cut(rows: Rows, first: int, end: int) -> Rows:
    inside = slice(rows.indptr[first], rows.indptr[end])
    indptr = rows.indptr[first : end + 1] - rows.indptr[first]
    return Rows(indptr, rows.rank[inside], rows.value[inside], rows.label[first:end], rows.weight[first:end])
