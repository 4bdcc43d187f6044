"""The structures of the learners: a batch of events, and the work space for a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, aligned
from riata.native.library import address, struct

_LINE_BYTES: Final = 64  # of the machine's cache
_LINE_STARTS: Final = 16


class Joined(NamedTuple):
    """What learners read of a `Batch`; the names are its."""

    indptr: I64
    hash: U32
    value: F64
    label: F64
    weight: F64


def joined(batches: Sequence[Any]) -> Joined:
    """Return the rows of several batches as one."""
    starts = np.cumsum([0, *(len(batch.hash) for batch in batches)])
    ends = np.concatenate([starts[:1], *(batch.indptr[1:] for batch in batches)])
    ends[1:] += np.repeat(starts[:-1], [len(batch.label) for batch in batches])
    parts = zip(*((batch.hash, batch.value, batch.label, batch.weight) for batch in batches), strict=True)
    return Joined(ends, *map(np.concatenate, parts))


class RowsArray:
    """The `riata_rows` of several batches, one behind another; it keeps their arrays.

    Filling structures field by field takes longer than to learn a row. All fields have eight bytes: they are written as numbers.
    """

    __slots__ = ("_array", "_as_parameter_", "_kept")
    _declared: Final = "riata_rows"

    def __init__(self, batches: Sequence[Any], skip: BOOL, hashes: Sequence[U32]) -> None:
        """
        batches : Batch, whose arrays are copied if C cannot read them as they are
        skip : bool[n]   of the rows of all batches; those that are true are predicted only
        hashes           are read instead of those of the batches

        Raises `ValueError` if the lengths of the arrays do not fit.
        """
        fields: list[int] = []
        kept: list[Any] = [skip]
        skipped, left, whole = address(skip), len(skip), np.ascontiguousarray
        for batch, own in zip(batches, hashes, strict=True):
            indptr, features = whole(batch.indptr, np.int64), whole(own, np.uint32)
            value, label, weight = whole(batch.value, np.float64), whole(batch.label, np.float64), whole(batch.weight, np.float64)
            n, left = len(label), left - len(label)
            if not len(indptr) - 1 == n == len(weight) or len(features) != len(value) or left < 0:
                raise ValueError("the arrays of a batch do not have the same lengths")
            kept += indptr, features, value, label, weight
            fields += address(indptr), address(features), address(value), address(label), address(weight), skipped, n, len(value)
            skipped += n
        self._kept, self._array = kept, np.array(fields, np.int64)
        self._as_parameter_ = address(self._array)


def features_of(batch: Any) -> tuple[I64, U32, F64, int, int]:
    """Return what C needs to score the rows of a `Batch`: indptr, hash, value, how many rows and how many features.

    Raises `ValueError` if the lengths of the arrays do not fit.
    """
    indptr, hashes = np.ascontiguousarray(batch.indptr, np.int64), np.ascontiguousarray(batch.hash, np.uint32)
    if len(hashes) != len(batch.value):
        raise ValueError("the arrays of a batch do not have the same lengths")
    return indptr, hashes, np.ascontiguousarray(batch.value, np.float64), len(indptr) - 1, len(hashes)


class Room:
    """A `riata_room` for rows of up to `features` features: `columns` numbers for each, and `rows` of which are laid out at once.

    Its arrays are aligned to a cache line: access to several numbers that cross two takes twice as long, and even longer if they
    were written just before.
    """

    def __init__(self, features: int, columns: int, rows: int = 1) -> None:
        self.length = length = -(-features // _LINE_STARTS) * _LINE_STARTS
        start = aligned(np.empty(rows * length + _LINE_STARTS, np.uint32), rows * length, _LINE_BYTES)
        column = aligned(np.empty(columns * length + _LINE_BYTES // 8), columns * length, _LINE_BYTES)
        self.struct = struct("riata_room", start=start, column=column, length=length)
        self.nbytes = start.nbytes + column.nbytes
